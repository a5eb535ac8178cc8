"""Where engines run. A target starts one engine process per launch and says where it answers; nothing falls
back from one target to another."""

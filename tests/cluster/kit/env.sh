# shellcheck shell=bash
# Names and addresses shared by build, up, down and smoke; source it, do not run it.
# Everything can be overridden from the environment.
# shellcheck disable=SC2034 # read by those that source this
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

: "${TC_NAME:=runner-cluster}"            # netns, cgroup and node name; one machine may have several
: "${TC_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/llm-experiment-runner/cluster}" # built binaries and images
: "${TC_STATE:=${TMPDIR:-/tmp}/$TC_NAME}"  # one cluster's life: pki, etcd, logs
: "${TC_API_PORT:=16443}"                  # API server, on the host's loopback

TC_NODE_IP=10.90.0.1          # lives on the lo of our own network namespace
TC_SERVICE_CIDR=10.91.0.0/16
TC_SERVICE_IP=10.91.0.1       # ClusterIP of service default/kubernetes
TC_DNS_IP=10.91.0.10
TC_POD_CIDR=10.92.0.0/24
TC_NETNS=/run/netns/$TC_NAME
TC_KUBE_VERSION=v1.36.3
TC_DOMAIN=llm-experiment-runner.local # image names: never resolved, images are imported

export TC_NAME TC_CACHE TC_STATE TC_API_PORT TC_NODE_IP TC_SERVICE_CIDR TC_SERVICE_IP \
	TC_DNS_IP TC_POD_CIDR TC_NETNS TC_KUBE_VERSION TC_DOMAIN

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f s", b - a }'; }

# Our cgroup: one folder in each v1 hierarchy ("unified" too: runc uses it), or a single one under v2.
cgroup_folders() {
	local controller
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		echo "/sys/fs/cgroup/$TC_NAME"
		return
	fi
	for controller in /sys/fs/cgroup/*/; do
		echo "$controller$TC_NAME"
	done
}

# Is this process id still PID 1 of our cluster, or the unshare that holds it? A number that was ours may by now be
# another cluster's.
ours() {
	grep -qazF /node-init "/proc/$1/cmdline" 2>/dev/null && grep -qazxF "TC_NAME=$TC_NAME" "/proc/$1/environ" 2>/dev/null
}

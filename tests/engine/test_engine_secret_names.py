"""Which names sound like secrets: none of those that an engine is really set by may."""

from __future__ import annotations

import pytest

from runner.engine.environment import is_secret

SECRET = """HF_TOKEN --api-key VLLM_API_KEY VLLM_APIKEY DB_PASS PGPASS DBPASS PGPASSWORD MYSQL_PWD DB_PWD SENTRY_DSN DSN
REDIS_CONN DB_CONN_STR CONNECTION_STRING AZURE_STORAGE_CONNECTION_STRING ConnectionString AccountKey accountKey
hubToken AWS_SECRET_ACCESS_KEY CLIENTSECRET x/token example.com/api-key hf_overrides.token GOOGLE_CREDENTIALS PASSWORD
SSH_PASSPHRASE BASIC_AUTH"""
SHAPING = """
PWD OLDPWD BYPASS VLLM_PASS_THROUGH compilation-config.pass_config.fuse_norm_quant CUDA_DEVICE_MAX_CONNECTIONS
DB_MAX_CONN kv_connector kv-transfer-config.kv_connector tokenizer --max-num-batched-tokens spec-tokens
num_speculative_tokens TOKENIZERS_PARALLELISM VLLM_TOKENIZER_MODE ssl-keyfile VLLM_BATCH_INVARIANT
VLLM_CACHE_ROOT VLLM_COMPUTE_NANS_IN_LOGITS VLLM_CPU_KVCACHE_SPACE VLLM_DISABLE_LOG_LOGO VLLM_HOST_IP
VLLM_LOGGING_PREFIX VLLM_LOG_STATS_INTERVAL VLLM_NO_USAGE_STATS VLLM_PORT VLLM_SERVER_DEV_MODE
VLLM_USE_FLASHINFER_SAMPLER VLLM_USE_RUST_FRONTEND VLLM_USE_V2_MODEL_RUNNER
VLLM_MAX_TOKENS_PER_EXPERT_FUSED_MOE_CHUNK VLLM_KEEP_ALIVE_ON_ENGINE_DEATH VLLM_USE_BYTECODE_HOOK
HF_HUB_OFFLINE TRANSFORMERS_OFFLINE NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME LD_PRELOAD PROMETHEUS_MULTIPROC_DIR
MONKEY author
"""


@pytest.mark.parametrize(
    "name",
    SECRET.split(),
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    SHAPING.split(),
)
def test_names_that_only_sound_alike(name: str) -> None:
    assert not is_secret(name)

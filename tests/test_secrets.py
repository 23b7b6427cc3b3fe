"""Which names tell of a secret, and which values of a command are secrets."""

from __future__ import annotations

import pytest

from console.base.secrets import is_secret_name, mask_argv, secret_values

SECRET = """HF_TOKEN --api-key VLLM_API_KEY AWS_SECRET_ACCESS_KEY PGPASSWORD SSHPASS DB_PASS REGISTRY_PASS OPENAI_KEY
WANDB_KEY JWT SERVICE_JWT AZURE_STORAGE_CONNECTION_STRING MYSQL_PWD http_proxy_password"""
PLAIN = """TOKENIZERS_PARALLELISM MAX_TOKENS BYPASS NCCL_BYPASS COMPASS VLLM_FUSION_PASSES VLLM_TWO_PASS
ENABLE_FUSION_PASS
KEY_CACHE KEY_BITS NCCL_CACHE_KEY SORT_KEY --kv-cache-key NCCL_IB_PKEY PATH VLLM_KEY_SCALE PARTITION_KEY --ssl-keyfile
CONNECTION_TIMEOUT STRING --tokenizer --max-num-batched-tokens"""


@pytest.mark.parametrize("name", SECRET.split())
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN.split())
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_secret_name(name)


def test_every_key_that_a_flag_takes_is_one() -> None:
    argv = ["serve", "m", "--api-key", "first-key", "-second-key", "third-key", "--port", "8000", "--token=a=b"]
    assert secret_values({"PGPASSWORD": "pg-word", "JWT": ""}, argv) == {
        "first-key", "-second-key", "third-key", "a=b", "pg-word",
    }  # fmt: skip
    shown = " ".join(mask_argv(argv))
    assert shown == "serve m --api-key *** *** *** --port 8000 --token=***"
    assert secret_values({}, ["--api-key"]) == frozenset()

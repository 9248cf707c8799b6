"""Which values are secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra_agent.redact.known import flag_values, hidden_argv, hidden_env, is_secret, secret_values

pytestmark = pytest.mark.requirement("S1")


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "HF_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "aws_session_token", "DB_PASSWORD",
        "PGPASSWORD", "MYSQL_PWD_PASSWD", "GOOGLE_APPLICATION_CREDENTIALS", "COOKIE", "MY_PAT", "SENTRY_DSN",
        "PROXY_AUTH", "JWT", "OPENAIKEY", "API_TOKENS", "SIGNING-KEY", "SSH_PASSPHRASE",
    ],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name, "a-value-of-its-own")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "somewhere"),
        ("MAX_TOKENS", "100000000"),
        ("VLLM_MAX_NUM_BATCHED_TOKENS", "8192"),
        ("USE_AUTH_TOKEN", "true"),
        ("AUTHOR", "somebody at home"),
        ("KEYBOARD", "dvorak-intl"),
        ("PATH", "/usr/bin:/bin"),
        ("OMP_NUM_THREADS", "12345678"),
        ("API_KEY", ""),
        ("OPENAI_API_KEY", "not-needed"),
        ("REMOTE_AUTH", "Disabled"),
    ],
)
def test_switches_counts_and_ordinary_settings_are_none(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_a_path_that_exists_is_no_secret_but_a_value_that_only_looks_like_one_is(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text("{}")
    assert not is_secret("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    assert is_secret("API_KEY", "/x9f8a7d6b5c4")


def test_passwords_inside_addresses_are_secrets_whatever_the_variable_is_called() -> None:
    found = secret_values(
        {
            "DATABASE_URL": "postgres://app:hunter22secret@db:5432/x",
            "PIP_INDEX_URL": "https://ghp_0123456789abcdef@packages.example/simple",
            "HTTPS_PROXY": "http://me:p%40ss%2Fword1@proxy:3128",
            "HOMEPAGE": "https://git@github.com/x",
        }
    )
    assert {"hunter22secret", "ghp_0123456789abcdef", "p%40ss%2Fword1", "p@ss/word1"} <= found
    assert "git" not in found


def test_secrets_in_command_lines_are_found_and_hidden() -> None:
    argv = ["serve", "m", "--api-key", "sk-one-two", "--hf-token=hf_abcdefgh", "--max-tokens", "64", "--port", "8000"]
    assert flag_values(argv) == {"sk-one-two", "hf_abcdefgh"}
    assert hidden_argv(argv) == [
        "serve", "m", "--api-key", "***", "--hf-token=***", "--max-tokens", "64", "--port", "8000",
    ]  # fmt: skip


def test_short_secrets_are_hidden_by_their_name() -> None:
    shown = hidden_env({"API_KEY": "abc", "OMP_NUM_THREADS": "2", "URL": "http://u:pw@host/"})
    assert shown == {"API_KEY": "***", "OMP_NUM_THREADS": "2", "URL": "http://u:***@host/"}

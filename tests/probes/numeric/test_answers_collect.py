"""Collecting answers over real HTTP from a small server on the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from probes.numeric.answers import load_answers, main, save_answers
from probes.numeric.collect import collect
from probes.numeric.prompts import filled, load_prompts
from probes.numeric.types import Answer, AnswerFileError, AnswerPrompt, TokenLogprob

Reply = Callable[[dict[str, Any]], tuple[int, Any]]
PROMPTS = tuple(AnswerPrompt(id=f"p{at}", text=f"question {at}") for at in range(4))


@contextmanager
def server(reply: Reply) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append({"path": self.path, **body})
            status, document = reply(body)
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}", seen
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def chat(text: Any, **choice: Any) -> dict[str, Any]:
    first = {"message": {"content": text}, "finish_reason": "stop", **choice}
    return {"model": "m", "choices": [first], "usage": {"completion_tokens": 3}}


def ask(url: str, **change: Any) -> tuple[Answer, ...]:
    options = {"max_tokens": 8, "concurrency": 4, "timeout_s": 20.0, **change}
    return collect(url, options.pop("endpoint", "chat"), "m", PROMPTS, **options)


def test_every_prompt_gets_its_answer_in_order_and_is_asked_greedily():
    with server(lambda body: (200, chat("re: " + body["messages"][0]["content"]))) as (url, seen):
        answers = ask(url)
    assert [(one.prompt_id, one.text) for one in answers] == [(p.id, f"re: {p.text}") for p in PROMPTS]
    assert (answers[0].finish_reason, answers[0].output_tokens, answers[0].model) == ("stop", 3, "m")
    assert all(body["temperature"] == 0 and body["max_tokens"] == 8 and not body["stream"] for body in seen)
    assert all("logprobs" not in body for body in seen)


def test_the_load_is_really_concurrent_and_never_more():
    meeting = threading.Barrier(2, timeout=20)
    lock, running, peak = threading.Lock(), [0], [0]

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        meeting.wait()
        with lock:
            running[0] -= 1
        return 200, chat("x")

    with server(reply) as (url, _):
        assert all(one.error is None for one in ask(url, concurrency=2))
    assert peak[0] == 2


def test_a_failed_request_stays_as_an_answer_with_its_error():
    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        question = body["messages"][0]["content"]
        broken = {
            "question 1": (500, {"detail": "out of blocks"}),
            "question 2": (200, b"<html>"),
            "question 3": (200, {"choices": []}),
        }
        return broken.get(question, (200, chat("fine")))

    with server(reply) as (url, _):
        good, *bad = ask(url)
    assert good.error is None
    assert "HTTP 500" in (bad[0].error or "")
    assert "out of blocks" in (bad[0].error or "")
    assert all(one.error for one in bad)


def test_an_answer_without_text_is_an_error():
    with server(lambda body: (200, chat(None))) as (url, _):
        assert all("text is NoneType" in (one.error or "") for one in ask(url))


def test_a_server_that_never_answers_is_given_up():
    leave = threading.Event()

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        leave.wait(20)
        return 200, chat("late")

    with server(reply) as (url, _):
        answers = ask(url, timeout_s=0.2)
        leave.set()
    assert [one.error for one in answers] == ["no answer within 0.2 s"] * 4


def test_a_server_that_is_not_there_gives_errors_not_an_exception():
    with server(lambda body: (200, {})) as (url, _):
        pass
    assert all("ConnectError" in (one.error or "") for one in ask(url))


def test_logprobs_are_read_where_the_engine_gives_them():
    content = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1}]}
    with server(lambda body: (200, chat("ab", logprobs=content))) as (url, seen):
        answers = ask(url, logprobs=True)
    assert seen[0]["logprobs"] is True
    assert answers[0].logprobs == (TokenLogprob(token="a", logprob=-0.5), TokenLogprob(token="b", logprob=-1.0))


def test_text_completions_send_the_plain_prompt():
    document = {"model": "m", "choices": [{"text": "t", "logprobs": {"tokens": ["t"], "token_logprobs": [-2]}}]}
    with server(lambda body: (200, document)) as (url, seen):
        answers = ask(url, endpoint="completions", logprobs=True)
    assert {(body["path"], body["prompt"]) for body in seen} == {("/v1/completions", p.text) for p in PROMPTS}
    assert answers[0].logprobs == (TokenLogprob(token="t", logprob=-2.0),)
    assert answers[0].output_tokens is None


@pytest.mark.parametrize("change", [{"concurrency": 0}, {"max_tokens": 0}, {"timeout_s": 0}])
def test_impossible_settings_are_refused(change: dict[str, int]):
    with pytest.raises(ValueError):
        ask("http://127.0.0.1:9", **change)


def test_prompts_are_repeated_until_they_fill_the_load():
    prompts = load_prompts("builtin:answers")
    assert len(prompts) == 8
    many = filled(prompts, 20)
    assert len(many) == 20
    assert len({prompt.id for prompt in many}) == 20
    assert filled(prompts, 3) == prompts


def test_a_prompt_file_is_read_and_its_faults_are_named(tmp_path: Path):
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "one"}\n\n{"prompt": "two", "id": "second"}\n')
    assert [(p.id, p.text) for p in load_prompts(str(file))] == [("line1", "one"), ("second", "two")]
    for bad in ("[]", "{}", '{"prompt": 3}', '{"prompt": " "}', "nonsense"):
        file.write_text(f'{{"prompt": "one"}}\n{bad}\n')
        with pytest.raises(AnswerFileError, match=r"p\.jsonl:2"):
            load_prompts(str(file))
    file.write_text("\n")
    with pytest.raises(AnswerFileError, match="no prompts"):
        load_prompts(str(file))


def test_saved_answers_come_back_equal_and_strange_files_are_refused(tmp_path: Path):
    file = tmp_path / "a.json"
    one = Answer(
        prompt_id="a",
        prompt="q",
        endpoint="chat",
        max_tokens=4,
        text="ü",
        model="m",
        logprobs=(TokenLogprob(token="ü", logprob=-1.0),),
    )
    save_answers(str(file), (one,))
    assert load_answers(str(file)) == (one,)
    for bad in (
        "[]",
        "{}",
        "nonsense",
        '[{"prompt_id": "a"}]',
        "[3]",
        '[{"prompt_id": 1, "prompt": "q", "endpoint": "chat", "max_tokens": 4}]',
    ):
        file.write_text(bad)
        with pytest.raises(AnswerFileError):
            load_answers(str(file))


def test_the_command_passes_equal_servers_and_fails_a_changed_one(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    with server(lambda body: (200, chat("yes"))) as (url, _), server(lambda body: (200, chat("no"))) as (other, _):
        common = ["--model", "m", "--json"]
        assert main(["--url", url, "--against-url", url, "--save", str(tmp_path / "s.json"), *common]) == 0
        document = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (document["verdict"], document["signals"]["repeat_flips"]) == ("pass", 0)
        assert main(["--url", other, "--against-file", str(tmp_path / "s.json"), *common]) == 1
        assert "inconclusive" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--url", "u", "--against-url", "v", "--model", "m", "--oracle-python", "python"],
        ["--url", "u", "--against-url", "v", "--model", "m", "--prompts", "builtin:none"],
        ["--url", "u", "--against-file", "missing.json", "--model", "m"],
        ["--url", "u", "--against-url", "v", "--model", "m", "--concurrency", "0"],
        ["--url", "u", "--against-url", "v", "--model", "m", "--tolerance", "nan"],
    ],
)
def test_a_wrong_command_line_ends_with_usage(argv: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(argv)
    assert left.value.code == 2
    assert "usage:" in capsys.readouterr().err

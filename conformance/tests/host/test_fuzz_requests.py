"""The requests that are sent, and what a campaign makes of the answers; no engine."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings

from sglang_platform.conformance.host.fuzz.campaign import CampaignResult, table
from sglang_platform.conformance.host.fuzz.left_to_the_host import LEFT_TO_THE_HOST, is_left
from sglang_platform.conformance.host.fuzz.regressions import CASES
from sglang_platform.conformance.host.fuzz.strategies import Request, requests


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests())
def test_every_request_can_be_sent(request: Request) -> None:
    assert request.path.startswith("/")
    data = request.data()
    assert data is None if request.method == "GET" else isinstance(data, bytes)


def test_regression_cases_have_names_of_their_own_and_can_be_sent() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 200
    for case in CASES:
        assert isinstance(case.body, bytes) or json.dumps(case.body)


def test_the_table_counts_by_endpoint_and_status() -> None:
    seen = CampaignResult()
    seen.statuses.update(
        {("/generate", 200): 3, ("/generate", -1): 1, ("/encode", 400): 2, ("/encode", 0): 1}
    )
    assert table(seen).splitlines()[2:] == [
        "| /encode |  | 1 |  | 2 |",
        "| /generate | 1 |  | 3 |  |",
        "| all | 1 | 1 | 3 | 2 |",
    ]
    assert table(seen).startswith("| endpoint | left | no answer | 200 | 400 |")
    assert seen.sent == 7


def test_what_is_left_to_the_host_is_known_by_its_words_and_says_why() -> None:
    assert all(one.place and one.why for one in LEFT_TO_THE_HOST)
    assert is_left("/generate", 500, '{"message": "Grammar accept_token failed: x"}')
    assert not is_left("/generate", 500, "Internal Server Error")
    assert not is_left("/generate", 0, "IncompleteRead")

import pytest

from farm.agents.prices import LIST_PRICES, cost_usd, is_priced
from farm.model.prices import Price
from farm.model.transcript import Usage

MILLION = 1_000_000


def test_every_kind_of_token_has_its_price():
    usage = Usage(
        input_tokens=MILLION,
        output_tokens=MILLION,
        cache_creation_tokens=MILLION,
        cache_read_tokens=MILLION,
    )
    assert cost_usd(usage, "claude-opus-4-5", {}) == pytest.approx(5 + 25 + 6.25 + 0.5)


@pytest.mark.parametrize(
    "model",
    [
        "claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        "claude-haiku-4-5@20251001",
        "claude-haiku-4-5-latest",
        "anthropic/claude-haiku-4-5",
        "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    ],
)
def test_a_model_of_a_family_has_its_price(model):
    assert cost_usd(Usage(input_tokens=MILLION), model, {}) == 1.0


@pytest.mark.parametrize("model", ["claude-opus-5-9", "claude-opus-50", "claude-haiku", "gpt-9", ""])
def test_what_is_only_alike_has_no_price(model):
    assert cost_usd(Usage(input_tokens=MILLION), model, {}) is None
    assert not is_priced(model, {})


def test_the_price_of_a_long_prompt_is_that_of_the_whole_request():
    short = Usage(input_tokens=60_000, cache_read_tokens=40_000, output_tokens=1000)
    long = Usage(input_tokens=60_001, cache_read_tokens=40_000, output_tokens=1000)
    assert cost_usd(short, "claude-haiku-5-5", {}) == pytest.approx(0.006 + 0.0004 + 0.0005)
    assert cost_usd(long, "claude-haiku-5-5", {}) == pytest.approx(5 * 0.0069, rel=1e-4)


def test_an_authors_price_wins_and_a_star_stands_for_many_models():
    own = {
        "claude-opus-5": Price(input=1.0, output=2.0),
        "in-house-*": Price(input=3.0, output=4.0, cache_read=0.0),
        "in-house-large*": Price(input=5.0, output=6.0),
    }
    used = Usage(input_tokens=MILLION)
    assert cost_usd(used, "claude-opus-5", own) == 1.0
    assert cost_usd(used, "in-house-7b", own) == 3.0
    assert cost_usd(used, "in-house-large-2", own) == 5.0
    assert cost_usd(Usage(cache_read_tokens=MILLION), "in-house-7b", own) == 0.0
    assert cost_usd(Usage(cache_read_tokens=MILLION), "in-house-large", own) == 0.5
    assert cost_usd(Usage(cache_creation_tokens=MILLION), "in-house-large", own) == 6.25


def test_reading_a_cache_is_cheaper_and_writing_it_dearer_than_reading():
    for price in LIST_PRICES.values():
        assert price.cache_read is not None
        assert price.cache_write is not None
        assert price.cache_read < price.input < price.cache_write < price.output

"""The page in a real browser, from files, with the network cut off: it sorts, filters and draws."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser import NEEDS_CHROMIUM, middle_of, ranges
from tests.leaderboard.boards import HOSTILE, LONG, small_board
from tests.leaderboard.conftest import PLAN, picture

pytestmark = NEEDS_CHROMIUM
NUMBER = re.compile(r"[−-]?[\d.,]+")


def column(page, table, title):
    """The texts of a column."""
    heads = page.locator(f"{table} thead th").all_inner_texts()
    index = next(number for number, text in enumerate(heads, 1) if text.strip("▲▼ \n") == title)
    return page.locator(f"{table} tbody tr > :nth-child({index})").all_inner_texts()


def numbers(texts):
    return [float(NUMBER.search(text).group().replace("−", "-").replace(",", "")) for text in texts if text != "–"]


def test_every_view_opens_without_an_error(visit):
    page = visit()
    for name in ("Curves", "Instances", "Plans", "Standings"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("nav [aria-current=page]")).to_have_text(name)
    assert "MemPlace leaderboard" in page.title()


def test_columns_sort_by_number_and_say_so(visit):
    page = visit("#budget=all")
    for title in ("Share of gain", "Gap to bound", "Plans tried", "Seconds"):
        head = page.locator("#standings-table th", has=page.get_by_text(title, exact=True))
        states = []
        for _ in range(2):
            head.get_by_role("button").click()
            expect(head).to_have_attribute("aria-sort", re.compile("ascending|descending"))
            if states:
                expect(head).not_to_have_attribute("aria-sort", states[0])
            states.append(head.get_attribute("aria-sort"))
            shown = numbers(column(page, "#standings-table", title))
            assert shown == sorted(shown, reverse=states[-1] == "descending")
            assert len(set(shown)) > (title == "Share of gain")
        assert set(states) == {"ascending", "descending"}
        assert page.locator("#standings-table th:is([aria-sort=ascending], [aria-sort=descending])").count() == 1


def test_sorting_works_by_keyboard_and_keeps_the_focus(visit):
    page = visit("#view=instances")
    before = column(page, "#instances-table", "Ops")
    button = page.locator("#instances-table th", has_text="Ops").get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#instances-table th", has_text="Ops")).to_have_attribute("aria-sort", "descending")
    expect(button).to_be_focused()
    after = column(page, "#instances-table", "Ops")
    assert numbers(after) == sorted(numbers(before), reverse=True) != numbers(before)


def test_filters_change_the_rows_and_the_count(visit):
    page = visit()
    expect(page.locator("#status")).to_have_text("2 rows over 4 instances")  # at the track's main budget
    page.get_by_label("Budget").select_option("all")
    expect(page.locator("#status")).to_have_text("4 rows over 4 instances")
    page.get_by_label("Chip").select_option("nnp-i")
    expect(page.locator("#status")).to_have_text("4 rows over 2 instances")
    assert set(column(page, "#standings-table", "95 % interval")) == {"–"}
    page.get_by_label("Family").select_option("TCN")
    expect(page.locator("#status")).to_have_text("4 rows over 1 instances")
    page.get_by_label("Budget").select_option("50")
    expect(page.locator("#status")).to_have_text("3 rows over 1 instances")
    page.get_by_label("Name contains").fill("LOCAL")
    expect(page.locator("#status")).to_have_text("1 row over 1 instances")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("#status")).to_have_text("2 rows over 4 instances")
    page.get_by_label("Formulation").select_option("game")
    page.get_by_label("Budget").select_option("50")
    expect(page.locator("#status")).to_have_text("3 rows over 2 instances")
    page.get_by_label("Track").select_option("black-box")
    expect(page.locator("#status")).to_have_text("0 rows over 4 instances")


def test_declared_rows_are_below_and_have_no_rank(visit):
    """Among one-shot rows local-search was run again, density-greedy is a rule, and the others are declared."""
    page = visit("#budget=all")
    above = page.locator("#standings-table tbody th").all_inner_texts()
    assert {text.split()[0] for text in above} == {"density-greedy", "local-search"}
    assert page.locator("#declared-table tbody tr").count() == 2
    lists = page.locator("#ranking ol")
    assert lists.count() == 2
    assert lists.nth(0).locator(".rank").all_inner_texts().count("1.") == 1
    assert set(lists.nth(1).locator(".rank").all_inner_texts()) == {""}
    assert lists.nth(0).locator("li.computed .rank").inner_text() == ""
    assert (
        "2026-01-31"
        in column(page, "#standings-table", "Run again")[above.index(next(t for t in above if "local" in t))]
    )
    page.locator("#submit summary").click()
    expect(page.locator("#submit")).to_contain_text("memplace leaderboard run")


def test_scores_of_all_instances_are_the_same_computed_here_and_there(visit):
    page = visit()
    computed = page.evaluate(
        """() => memplaceData.rows.map((row) => {
            const asked = {suite: "", track: "", form: row.formulation, budget: row.budget, q: ""};
            const state = Memplace.scores.settled(asked);
            const groups = Memplace.scores.groups(state);
            const group = groups.find((each) => each.index === row.submission && each.budget === row.played_budget);
            const { share, iqm, optimality_gap, gap, solved } = Memplace.scores.recomputed(state, group);
            return [share, iqm, optimality_gap, gap, solved];
        })"""
    )
    rows = small_board().rows
    assert len(rows) > 6
    for found, row in zip(computed, rows, strict=True):
        python = row.share, row.iqm, row.optimality_gap, row.gap, row.solved
        assert found == pytest.approx(python, abs=1e-5)


def test_hostile_names_are_text_and_bad_links_are_none(visit):
    page = visit("#budget=all")
    names = page.locator("#declared-table tbody th").all_inner_texts()
    assert any("</script>" in name for name in names)
    assert page.locator("#view-standings img, #view-standings b").count() == 0
    links = page.locator("#view-standings a").evaluate_all("all => all.map((each) => each.href)")
    assert set(links) == {"https://example.org/work"}
    assert page.locator(f'#declared-table [title="{LONG}"]').count() == 1
    page.get_by_role("link", name="Curves").click()
    expect(page.locator("#curves-legend li")).to_have_count(4)
    expect(page.locator("#curves-legend")).to_contain_text(HOSTILE[:20])
    assert page.locator("#curves-legend img").count() == 0


def test_charts_have_a_line_for_each_submission(visit):
    page = visit("#view=curves&budget=all")
    for chart in ("profile", "anytime"):
        expect(page.locator(f"#{chart} .scatterlayer .trace")).to_have_count(4)
    assert page.evaluate("document.getElementById('anytime').layout.xaxis.type") == "log"
    heights = page.evaluate(
        "document.getElementById('profile').data.map((line) => line.y.every((y, i) => !i || y <= line.y[i - 1]))"
    )
    assert heights == [True] * 4


def test_an_instance_opens_two_plans_and_the_pointer_finds_a_tensor(visit):
    page = visit("#view=instances&form=game")
    page.get_by_role("link", name="MallocGame-Evoformer-pairs-v0").click()
    picture(page)
    expect(page.locator("#plan-summary tbody tr").first).to_contain_text("Latency")
    assert page.locator("#plan-a").input_value() != page.locator("#plan-b").input_value()
    assert page.locator("#plan-a option").count() == page.locator("#plan-b option").count() == 4
    name = page.evaluate(
        """() => {
            const { document_, sides: [{ plan: { blocks } }] } = Memplace.viewer.shown();
            const first = blocks.kind.findIndex((kind) => document_.kinds[kind].name === "activation");
            return document_.tensors[blocks.tensor[first]];
        }"""
    )
    page.mouse.move(*middle_of(page, name))
    tip = page.locator("#tip")
    expect(tip).to_be_visible()
    words = (r"iB in CMEM", r"from op \d+ \S+", r"to op \d+", r"activation", r"saves .* against HBM")
    for part in (*words, r"to .*[mµ]s of .*ms in A"):
        expect(tip).to_contain_text(re.compile(part))
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_zooming_moves_both_plans_and_is_kept_in_the_address(visit):
    page = visit(PLAN + "&by=op")
    picture(page)
    least, most = ranges(page)
    assert (least, most) == (0, 61)  # the end of the program is the last slot
    page.get_by_role("button", name="Zoom in").click()
    assert ranges(page) == [15.25, 45.75]
    assert "x=15.25_45.75" in page.url
    frame = page.locator("#picture")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 80, steps=5)
    page.mouse.up()
    low, high = ranges(page)
    assert low > 20
    assert high - low == pytest.approx(30.5)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    page.wait_for_function("() => { const [low, high] = Memplace.viewer.shown().view.x; return high - low < 20; }")
    page.get_by_role("button", name="Time", exact=True).click()
    assert "by=op" not in page.url
    assert ranges(page)[1] > 1e6  # picoseconds
    page.get_by_role("button", name="Whole program").click()
    assert "x=" not in page.url


def test_a_permalink_restores_the_view_and_back_goes_back(visit):
    page = visit("#view=instances&form=game")
    page.get_by_role("link", name="MallocGame-R3D-18-edge-tpu-v0").click()
    picture(page)
    options = page.locator("#plan-a option").evaluate_all("all => all.map((each) => each.value)")
    page.get_by_label("Plan A").select_option(options[1])
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_function("location.hash.includes('x=')")
    kept = ranges(page), page.locator("#plan-b").input_value(), page.url.partition("#")[2]
    other = visit("#" + kept[2])
    picture(other)
    assert ranges(other) == pytest.approx(kept[0], abs=1)
    assert other.get_by_label("Plan A").input_value() == options[1]
    assert other.locator("#plan-b").input_value() == kept[1]
    page.go_back()
    page.wait_for_function("!location.hash.includes('a=')")
    page.go_back()
    expect(page.locator("#instances-table")).to_be_visible()
    expect(page.locator("#filter-form")).to_have_value("game")


def test_the_button_copies_the_link(visit):
    page = visit("#view=instances&chip=nnp-i", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


@pytest.mark.parametrize(
    "part", ["#view=nothing&suite=%3Cb%3E&sort=x", "#view=plan&id=../../secret", "#view=plan&x=z_z", "#%%%"]
)
def test_an_address_that_makes_no_sense_is_no_error(visit, part):
    page = visit(part)
    expect(page.locator("section:not([hidden]) h2")).to_be_visible()

from outlast.demo import chart


def test_the_curve_falls_from_the_first_line_to_the_last() -> None:
    lines = chart.draw([(0, 5.0), (50, 3.0), (100, 1.0)]).splitlines()
    assert lines[0].startswith("  5.00 |*")
    assert lines[chart.HEIGHT - 1].startswith("  1.00 |")
    assert lines[chart.HEIGHT - 1].endswith("*")


def test_no_line_is_wider_than_asked() -> None:
    text = chart.draw([(step, 1 / step) for step in range(1, 500)], jobs=range(0, 500, 7), killed=[499], width=40)
    assert max(len(line) for line in text.splitlines()) <= chart.MARGIN + len(chart.LEGEND)
    assert max(len(line) for line in text.splitlines()[:-1]) <= 40


def test_jobs_are_numbered_where_they_began_and_a_killed_rank_is_crossed() -> None:
    lines = chart.draw([(0, 2.0), (71, 1.0)], jobs=[0, 40, 41], killed=[50]).splitlines()
    axis, numbers = lines[chart.HEIGHT : chart.HEIGHT + 2]
    assert axis.index("x") == chart.MARGIN + 50
    assert numbers.index("1") == chart.MARGIN
    assert numbers.index("2") == chart.MARGIN + 40
    assert numbers.index("3") == chart.MARGIN + 42


def test_points_that_are_no_numbers_are_left_out() -> None:
    nan = float("nan")
    assert chart.draw([(0, 2.0), (1, nan), (2, 1.0)]) == chart.draw([(0, 2.0), (2, 1.0)])


def test_without_a_point_it_says_so() -> None:
    assert chart.draw([]) == "no loss has been logged"


def test_one_point_has_a_scale() -> None:
    assert "2.50 |" in chart.draw([(3, 2.0)])

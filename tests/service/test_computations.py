"""Computations: equal queries share one."""


def test_equal_queries_are_one_computation(local) -> None:
    text = "SELECT x FROM alpha WHERE n > 2"
    numbers = local.add(*[text] * 5, text.replace("2", "3"))
    assert len(local.service.computations.by_id) == 2
    assert local.service.explain_query(local.ann, numbers[0])["queries_of_computation"] == 5
    for number in numbers[:5]:
        local.service.remove(local.ann, number)
    assert len(local.service.computations.by_id) == 1

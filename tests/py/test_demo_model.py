import numpy as np

from outlast.demo import data, model


def small_batch() -> tuple[data.Tokens, data.Tokens]:
    tokens = np.random.default_rng(0).integers(0, data.VOCABULARY, 200, dtype=np.uint8)
    return data.batch(tokens, size=8, context=3, seed=1, step=1, rank=0)


def test_gradients_agree_with_finite_differences() -> None:
    weights: model.Weights = {
        name: value.astype(np.float64) for name, value in model.initial(seed=1, context=3, width=4, hidden=5).items()
    }
    windows, following = small_batch()
    _, gradients = model.loss_and_gradients(weights, windows, following)
    for name, value in weights.items():
        for at in np.argsort(-abs(gradients[name]), axis=None)[:5]:
            place = np.unravel_index(at, value.shape)
            kept = value[place]
            value[place] = kept + 1e-5
            above = model.loss(weights, windows, following)
            value[place] = kept - 1e-5
            below = model.loss(weights, windows, following)
            value[place] = kept
            np.testing.assert_allclose(gradients[name][place], (above - below) / 2e-5, rtol=1e-6, err_msg=name)


def test_a_row_gives_back_loss_and_gradients_whatever_the_order_of_the_weights() -> None:
    weights = model.initial(seed=1)
    row = model.pack(2.5, weights)
    loss, gradients = model.unpack(row, dict(sorted(weights.items(), reverse=True)))
    assert loss == 2.5
    for name, value in weights.items():
        np.testing.assert_array_equal(gradients[name], value)


def test_learning_rate_warms_up_and_ends_at_zero() -> None:
    rates = [model.learning_rate(step, 100, 1.0) for step in range(1, 101)]
    assert rates.index(max(rates)) == model.WARMUP_STEPS - 1
    assert max(rates) == 1.0
    assert rates[-1] == 0.0


def test_a_batch_depends_on_seed_step_and_rank_alone() -> None:
    text = data.standard_library().train

    def first(seed: int, step: int, rank: int) -> bytes:
        return data.batch(text, 4, 16, seed, step, rank)[0].tobytes()

    assert first(1, 2, 3) == first(1, 2, 3)
    assert len({first(1, 2, 3), first(2, 2, 3), first(1, 3, 3), first(1, 2, 4)}) == 4


def test_no_block_is_both_for_training_and_for_evaluation() -> None:
    tokens = np.arange(20 * data.BLOCK) // data.BLOCK
    text = data.split(tokens.astype(np.uint8))
    assert set(text.evaluation.tolist()) == {9, 19}
    assert set(text.train.tolist()) == set(range(20)) - {9, 19}

"""Muon: updates with singular values near one; every parameter has exactly one optimizer."""

import pytest
import torch

from stepedit.config import TrainingConfig
from stepedit.registry import METHODS, PROGRAMMERS, TASKS
from stepedit.training.optimizers import Muon, make_optimizers, orthogonalize


def test_singular_values_come_near_one_and_singular_vectors_stay() -> None:
    matrices = torch.randn(5, 16, 40, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalize(matrices))
    assert values.min() > 0.6
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    rotated = u.transpose(1, 2) @ orthogonalize(matrices) @ v.transpose(1, 2)
    off_diagonal = rotated - torch.diag_embed(rotated.diagonal(dim1=1, dim2=2))
    assert off_diagonal.abs().max() < 1e-3


def test_a_matrix_and_its_transpose_get_the_same_update_and_a_zero_gradient_none() -> None:
    start = torch.randn(8, 20, generator=torch.Generator().manual_seed(1))
    wide, tall, still = (torch.nn.Parameter(x.clone()) for x in (start, start.T, start))
    muon = Muon([wide, tall, still], lr=0.1, weight_decay=0.0)
    wide.grad = torch.randn(8, 20, generator=torch.Generator().manual_seed(2))
    tall.grad, still.grad = wide.grad.T.clone(), torch.zeros(8, 20)
    muon.step()
    torch.testing.assert_close(wide, tall.T)
    assert not torch.equal(wide, start)
    assert torch.equal(still, start)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("name", PROGRAMMERS)
def test_every_parameter_has_exactly_one_optimizer(name: str, optimizer: str) -> None:
    config = TrainingConfig.model_validate({"optimizer": optimizer, "hidden_size": 16})
    net = PROGRAMMERS[name].from_config(METHODS["recurrence"](TASKS["aec"]()), config)
    optimizers = make_optimizers(net, config)
    seen = [id(part) for each in optimizers for group in each.param_groups for part in group["params"]]
    assert sorted(seen) == sorted(id(part) for part in net.parameters())
    assert (len(optimizers) == 2) == (optimizer == "muon")


def test_momentum_averages_gradients_and_looks_ahead() -> None:
    """Nesterov: the average moves by 5 % of each gradient, and the update is 95 % of it and 5 % of the gradient."""
    generator = torch.Generator().manual_seed(3)
    matrix = torch.nn.Parameter(torch.randn(6, 10, generator=generator))
    muon, average = Muon([matrix], lr=0.1, weight_decay=0.5), torch.zeros(6, 10)
    for _ in range(4):
        matrix.grad = torch.randn(6, 10, generator=generator)
        average = 0.95 * average + 0.05 * matrix.grad
        update = orthogonalize((0.05 * matrix.grad + 0.95 * average)[None])[0]
        expected = matrix.detach() * (1 - 0.1 * 0.5) - 0.1 * 0.2 * 10**0.5 * update
        muon.step()
        torch.testing.assert_close(matrix.detach(), expected)

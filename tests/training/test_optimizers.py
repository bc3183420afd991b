"""Muon: updates of equal strength in all directions."""

import pytest
import torch

from stepedit.config import Options
from stepedit.optimisers import Muon, make_optimisers, orthogonal
from stepedit.registry import METHODS, PROGRAMMERS, TASKS


def test_singular_values_come_near_one_and_directions_stay() -> None:
    matrices = torch.randn(5, 16, 40, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(matrices))
    assert values.min() > 0.6
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    turned = u.transpose(1, 2) @ orthogonal(matrices) @ v.transpose(1, 2)
    off = turned - torch.diag_embed(turned.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-3


def test_a_matrix_and_its_transpose_are_changed_alike_and_no_gradient_changes_nothing() -> None:
    start = torch.randn(8, 20, generator=torch.Generator().manual_seed(1))
    wide, tall, still = (torch.nn.Parameter(x.clone()) for x in (start, start.T, start))
    muon = Muon([wide, tall, still], lr=0.1, weight_decay=0.0)
    wide.grad = torch.randn(8, 20, generator=torch.Generator().manual_seed(2))
    tall.grad, still.grad = wide.grad.T.clone(), torch.zeros(8, 20)
    muon.step()
    torch.testing.assert_close(wide, tall.T)
    assert not torch.equal(wide, start)
    assert torch.equal(still, start)


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
@pytest.mark.parametrize("name", PROGRAMMERS)
def test_every_weight_is_changed_by_exactly_one_optimiser(name: str, optimiser: str) -> None:
    options = Options.preset("fast", optimiser=optimiser, hidden=16)
    net = PROGRAMMERS[name].for_method(METHODS["recurrence"](TASKS["aec"]()), options)
    optimisers = make_optimisers(net, options)
    seen = [id(part) for each in optimisers for group in each.param_groups for part in group["params"]]
    assert sorted(seen) == sorted(id(part) for part in net.parameters())
    assert (len(optimisers) == 2) == (optimiser == "muon")

import pytest
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv.engine.streams import Streams
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import BernoulliDropout
from smallnets import CPU, SmallConv


def stack_of(build, n_inputs, n_networks=3, dtype=torch.float32):
    seeds = SeedSequence(0).spawn(n_networks)
    return NetworkStack(build, n_inputs, 1, seeds, CPU, dtype), Streams(seeds, CPU, dtype)


def test_paper_network_has_the_papers_layers():
    layers = [type(layer).__name__ for layer in paper_network(2, 1)]
    assert layers == ["Linear", "LeakyReLU", "Dropout"] * 4 + ["Linear"]


@pytest.mark.parametrize(("build", "n_inputs"), [(lambda: paper_network(2, 1, 8), 2), (SmallConv, 12)])
def test_stack_computes_what_each_network_computes_alone(build, n_inputs, dtype):
    stack, streams = stack_of(build, n_inputs, dtype=dtype)
    draw = BernoulliDropout(stack, 1.0).draw(streams, 5)
    zeta = torch.randn(3, 5, 4, n_inputs, dtype=dtype)
    together = stack(draw, zeta)
    assert together.shape == (3, 5, 4, 1)
    for s, alone in enumerate(stack.split([1, 1, 1])):
        masks = {name: mask[s : s + 1] for name, mask in draw.items()}
        torch.testing.assert_close(alone(masks, zeta[s : s + 1]), together[s : s + 1])


def test_networks_of_a_stack_differ_and_depend_on_their_seed_alone():
    stack, _ = stack_of(lambda: paper_network(2, 1, 8), 2)
    seeds = SeedSequence(0).spawn(3)
    alone = NetworkStack(lambda: paper_network(2, 1, 8), 2, 1, seeds[2:], CPU)
    for name, value in stack.parameters.items():
        assert not torch.equal(value[0], value[1])
        assert torch.equal(alone.parameters[name][0], value[2])


def test_convolutional_network_has_its_dropout_replaced():
    stack, streams = stack_of(SmallConv, 12)
    assert [layer.shape for layer in stack.dropout_layers] == [(6, 1, 1), (4, 1), (10,)]
    f = BernoulliDropout(stack, 1.0)
    same = torch.randn(12).expand(3, 4, 2, 12)
    values = f.evaluate(f.draw(streams, 4), same)
    torch.testing.assert_close(values[:, :, 0], values[:, :, 1])
    assert values[:, :, 0].std(1).min() > 0.01


def test_building_leaves_the_global_generator_and_the_users_module_alone():
    before = torch.random.get_rng_state()
    module = paper_network(2, 1, 8)
    torch.random.set_rng_state(before)
    NetworkStack(lambda: module, 2, 1, SeedSequence(0).spawn(1), CPU)
    assert torch.equal(before, torch.random.get_rng_state())
    assert isinstance(module[2], nn.Dropout)


class OneLayerTwice(nn.Module):
    """The usual idiom: one dropout layer after every activation, here of different widths."""

    def __init__(self, *_):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(2, 20), nn.Linear(20, 30), nn.Linear(30, 1)
        self.dropout = nn.Dropout(0.5)

    def forward(self, rows):
        return self.head(self.dropout(self.second(self.dropout(self.first(rows)))))


def test_a_dropout_layer_has_a_mask_at_each_place_where_it_is_used():
    stack, streams = stack_of(OneLayerTwice, 2)
    assert [layer.shape for layer in stack.dropout_layers] == [(20,), (30,)]
    draw = BernoulliDropout(stack, 1.0).draw(streams, 4)
    zeta = torch.randn(3, 4, 5, 2)
    found = stack(draw, zeta)
    first, second, head = (
        lambda v, s, n=name: v @ stack.parameters[f"{n}.weight"][s].mT + stack.parameters[f"{n}.bias"][s]
        for name in ("first", "second", "head")
    )
    masks = list(draw.values())
    for s in range(3):
        by_hand = head(masks[1][s][:, None] * second(masks[0][s][:, None] * first(zeta[s], s), s), s)
        torch.testing.assert_close(found[s], by_hand)
    with torch.no_grad():
        torch.testing.assert_close(stack(draw, zeta), found.detach())


def test_a_dropout_object_registered_twice_is_replaced_at_both_places():
    dropout = nn.Dropout(0.5)
    stack, _ = stack_of(lambda: nn.Sequential(nn.Linear(2, 4), dropout, nn.Linear(4, 4), dropout, nn.Linear(4, 1)), 2)
    assert len(stack.dropout_layers) == 2


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout = nn.Linear(2, 1), nn.Dropout(0.5)

    def forward(self, rows):
        return nn.functional.dropout(self.dropout(self.layer(rows)), training=self.training)


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout = nn.Linear(2, 1), nn.Dropout(0.5)

    def forward(self, rows):
        return self.layer(rows)


class RowsMerged(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout = nn.Linear(1, 1), nn.Dropout(0.5)

    def forward(self, rows):
        return self.dropout(self.layer(rows.reshape(-1, 1))).reshape(-1, 2)[:, :1]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (Functional, "draws random numbers"),
        (Unused, "never used"),
        (RowsMerged, "rows must stay the first axis"),
        (
            lambda: nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1)),
            "LayerNorm",
        ),
        (lambda: nn.Sequential(nn.Linear(2, 4), nn.AlphaDropout(0.5), nn.Linear(4, 1)), "AlphaDropout"),
        (lambda: nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5)), r"shape \(2, 1\)"),
        (lambda: nn.Sequential(nn.Linear(2, 1), nn.Dropout(1.0)), "rate must be below 1"),
        (lambda: nn.Dropout(0.5), "no parameters|must map"),
        (lambda: nn.Sequential(nn.Linear(2, 4), nn.Dropout2d(0.5), nn.Linear(4, 1)), "more axes"),
    ],
)
def test_modules_that_break_the_contract_are_refused(build, words):
    with pytest.raises(ValueError, match=words):
        stack_of(build, 2)


def test_a_module_must_be_built_anew_for_each_network():
    module = paper_network(2, 1, 8)
    with pytest.raises(ValueError, match="new network at every call"):
        stack_of(lambda: module, 2)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        stack_of(lambda: "no module", 2)
    sizes = iter([4, 8, 16])
    with pytest.raises(ValueError, match="one shape"):
        stack_of(lambda: paper_network(2, 1, next(sizes)), 2)

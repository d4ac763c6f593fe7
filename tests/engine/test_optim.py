import pytest
import torch

from eiv.engine.optim import FlatAdam


def test_it_is_torchs_adam_with_weight_decay(dtype):
    shapes = [(3, 4, 5), (3, 1), (3, 7)]
    ours = [torch.randn(shape, dtype=dtype) for shape in shapes]
    theirs = [value.clone().requires_grad_(True) for value in ours]
    adam = FlatAdam(ours, learning_rate=0.05, weight_decay=0.3)
    reference = torch.optim.Adam(theirs, lr=0.05, weight_decay=0.3)
    for _ in range(20):
        for value, mine, other in zip(ours, adam.gradients, theirs, strict=True):
            other.grad = torch.randn(value.shape, dtype=dtype)
            mine.copy_(other.grad)
        adam.step()
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach())


def test_parameters_become_aligned_views_of_one_buffer():
    parameters = [torch.randn(3, 5), torch.randn(3, 1), torch.randn(3, 64)]
    before = [value.clone() for value in parameters]
    adam = FlatAdam(parameters, learning_rate=0.1)
    for value, was in zip(parameters, before, strict=True):
        assert torch.equal(value, was)
        assert (value.data_ptr() - adam.values.data_ptr()) % 256 == 0
        assert value.untyped_storage().data_ptr() == adam.values.untyped_storage().data_ptr()


def test_with_anchors_parameters_decay_to_them(dtype):
    shapes = [(3, 4, 5), (3, 1)]
    ours, anchors = ([torch.randn(shape, dtype=dtype) for shape in shapes] for _ in range(2))
    theirs = [value.clone().requires_grad_(True) for value in ours]
    adam = FlatAdam(ours, learning_rate=0.05, weight_decay=0.3, anchors=anchors)
    reference = torch.optim.Adam(theirs, lr=0.05)
    for _ in range(20):
        for value, mine, other, anchor in zip(ours, adam.gradients, theirs, anchors, strict=True):
            gradient = torch.randn(value.shape, dtype=dtype)
            other.grad = gradient + 0.3 * (other.detach() - anchor)
            mine.copy_(gradient)
        adam.step()
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("in_parts", [False, True])
def test_each_network_decays_by_a_number_of_its_own(dtype, anchored, in_parts):
    """Two networks as one, against each alone; in one go, or a parameter and network at a time."""
    shapes, decays = [(2, 4, 5), (2, 3)], (0.3, 2.0)
    starts, anchors = ([torch.randn(shape, dtype=dtype) for shape in shapes] for _ in range(2))
    together = [value.clone() for value in starts]
    adam = FlatAdam(together, 0.05, torch.tensor(decays, dtype=torch.float64), anchors if anchored else ())
    alone = [[value[i : i + 1].clone() for value in starts] for i in range(2)]
    adams = [
        FlatAdam(own, 0.05, decay, [anchor[i : i + 1] for anchor in anchors] if anchored else ())
        for i, (own, decay) in enumerate(zip(alone, decays, strict=True))
    ]
    for _ in range(20):
        for j, shape in enumerate(shapes):
            gradient = torch.randn(shape, dtype=dtype)
            adam.gradients[j].copy_(gradient)
            for i in range(2):
                adams[i].gradients[j].copy_(gradient[i : i + 1])
        if in_parts:
            adam.begin()
            for j in range(2):
                for i in range(2):
                    adam.move(adam.part(j, i), adam.gradients[j][i].flatten())
        else:
            adam.step()
        for own in adams:
            own.step()
    for j in range(2):
        torch.testing.assert_close(together[j], torch.cat([alone[i][j] for i in range(2)]), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(together[0][0], together[0][1], atol=0.01)

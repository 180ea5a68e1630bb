"""Classification of images: what is a hard function inside the network worth, and which gradient gets past it?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.data.dataset import Dataset, Labelled
from dab.estimators.true_gradient import TrueGradient
from dab.hard import KMeans, Sort, Sort1d, TopK
from dab.metrics.ordering import sortedness
from dab.models.classifier import Classifier
from dab.ranges import ShareBelow1, ranged
from dab.tasks.task import Task

TOP = 5
PIECEWISE_LINEAR = (Sort, Sort1d, TopK, KMeans)  # autograd knows their gradient


class ClassificationTask(Task):
    """Minimises the cross-entropy + the estimator's penalty.

    Metrics of a split: accuracy (selects the weights), top5 where there are more than five classes, and loss, the
    cross-entropy without smoothing. With every evaluation also, from the training batch that comes next:

        gradient_norm           of the gradient of a sample's loss and penalty at the input of the hard function
        gradient_norm_after     at its output
        gradient_cosine         between the two, where the function keeps the shape: straight-through passes the second
        true_cosine             between the first and what autograd finds: for sorts, top-k and k-means
        emd, inverted_pairs     how far from sorted a sorting function finds its input: dab.metrics.ordering

    label_smoothing     share of the labels that is spread evenly over the classes
    diagnosis           false: none of these
    """

    select = "accuracy"
    model: Classifier

    @ranged
    def __init__(self, model: nn.Module, label_smoothing: ShareBelow1 = 0.0, diagnosis: bool = True):
        super().__init__(model)
        if not isinstance(model, Classifier):
            raise ValueError(
                f"classification needs a model that says classes, given {type(model).__name__}: use "
                "model=cifar_resnet18 or model=dense_classifier"
            )
        self.label_smoothing, self.diagnosis = label_smoothing, diagnosis

    def prepare(self, data: Dataset) -> None:
        if not isinstance(data, Labelled):
            raise ValueError(f"classification needs data with labels, given {type(data).__name__}")
        if data.classes != self.model.classes:
            raise ValueError(
                f"the data has {data.classes} classes and the model {self.model.classes}: set "
                f"model.classes={data.classes}"
            )

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        x, labels = batch
        logits, penalty = self.model(x)
        task_loss, penalty = self.cost(logits, labels).mean(), penalty.mean()
        loss = task_loss + penalty
        right = right_of(logits.detach(), labels if labels.dim() == 1 else labels.argmax(1), 1)
        logs = {"loss": loss, "task_loss": task_loss, "penalty": penalty, "accuracy": right.mean()}
        return loss, {name: value.detach() for name, value in logs.items()}

    def cost(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of every sample; labels [B], or probabilities [B, classes] where images are mixed.  → [B]"""
        return F.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=self.label_smoothing)

    def measure(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        x, labels = batch
        logits, _ = self.model(x)
        more = {f"top{TOP}": right_of(logits, labels, TOP)} if self.model.classes > TOP else {}
        loss = F.cross_entropy(logits.float(), labels, reduction="none")
        return {"accuracy": right_of(logits, labels, 1), **more, "loss": loss}

    @property
    def diagnoses(self) -> bool:
        return self.diagnosis

    def diagnose(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        x, labels = batch
        z = self.model.encode(x).detach().requires_grad_()
        y, penalty = self.model.estimator(z)
        if not y.requires_grad:  # nothing passes back through this one
            y = y.detach().requires_grad_()
        loss = self.cost(self.model.decode(y), labels).sum() + penalty.sum()
        at_z, at_y = torch.autograd.grad(loss, [z, y], allow_unused=True, materialize_grads=True)
        found = {"gradient_norm": _norms(at_z), "gradient_norm_after": _norms(at_y)}
        if at_z.shape == at_y.shape:
            found["gradient_cosine"] = F.cosine_similarity(at_z.flatten(1), at_y.flatten(1))
        hard = getattr(self.model.estimator, "hard", None)
        found |= self._against_autograd(hard, z.detach(), labels, at_z) | sortedness(hard, z.detach())
        return {name: value.mean() for name, value in found.items()}

    def _against_autograd(self, hard: nn.Module | None, z: Tensor, labels: Tensor, at_z: Tensor) -> dict[str, Tensor]:
        if not isinstance(hard, PIECEWISE_LINEAR):
            return {}
        y, _ = TrueGradient(hard)(z.requires_grad_())
        (true,) = torch.autograd.grad(self.cost(self.model.decode(y), labels).sum(), z)
        return {"true_cosine": F.cosine_similarity(at_z.flatten(1), true.flatten(1))}


def right_of(logits: Tensor, labels: Tensor, top: int) -> Tensor:
    """1 where the label is among the `top` highest scores.  [B, classes], [B] → [B]"""
    return (logits.topk(top).indices == labels[:, None]).any(1).float()


def _norms(gradient: Tensor) -> Tensor:
    """[B, ...] → [B]"""
    return gradient.flatten(1).norm(dim=1)

"""The operators that users call, as functions of tensors.

Each runs in the native kernels where it can, and in torch's own operations where a native call may not be made: other
devices and dtypes, autocast, `torch.func`, `torch.jit.trace`, tensor subclasses.

>>> import carousel.functional as F
>>> logits = torch.randn(6, 8), torch.randn(50, 8)
>>> F.linear_cross_entropy(*logits, torch.randint(50, (6,))).shape
torch.Size([])
"""

from .ops.attention import Sequences, attend
from .ops.cross_entropy import linear_cross_entropy
from .ops.dropout import dropout
from .ops.embedding import embedding
from .ops.norm import total_norm

__all__ = ["Sequences", "attend", "dropout", "embedding", "linear_cross_entropy", "total_norm"]

"""Everything here needs a GPU that torch sees; elsewhere it is skipped."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def needs_a_gpu():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.fixture(scope="session")
def needs_faiss_gpu(needs_a_gpu):
    faiss = pytest.importorskip("faiss")
    if not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus()):
        pytest.skip("needs faiss-gpu")

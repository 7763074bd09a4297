"""The paper's experiments at a size of one's own, and their figures beside the paper's."""

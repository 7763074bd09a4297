"""A worker that says on which node it is."""

from tests.runtime.workers import Together


class Where(Together):
    def run(self, unit):
        import ray

        super().run(unit)
        return ray.get_runtime_context().get_node_id()

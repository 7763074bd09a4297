"""The job of the paper's experiments: thin, so that its exit code and its one line are enough."""


def test_bad_input_fails_the_job_with_one_clear_line(submitted, tmp_path):
    toml = f'[reproduce]\ndata = "/no/such/data"\nout = "{tmp_path / "out"}"\n'
    job = submitted("reproduce_paper", toml)
    assert (job["status"], job["code"]) == ("FAILED", 2)
    assert "/no/such/data/wikitext-2/train.txt: no such file" in job["log"]
    assert "Traceback" not in job["log"]
    assert not (tmp_path / "out").exists()

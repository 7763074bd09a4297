"""A loaded store behind HTTP: an app that speaks as OpenAI's does, exactly enough to evaluate."""

"""The automaton as a language model: a store that is loaded, then scores and generates."""

"""The dialect of models with chat templates: `<think>` tags and tool-call markup in plain text."""

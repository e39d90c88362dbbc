"""What a user takes home: a champion, the claim about it, and all that is needed to repeat the claim without Assay."""

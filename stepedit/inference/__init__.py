"""Editing with a trained model: decoding, the editor, the folder of a model."""

"""The bundled trainer: reads prebuilt stores, needs the extra `hfprep[train]`."""

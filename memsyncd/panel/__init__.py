"""The files of the panel: a page of plain HTML, CSS and ES modules, served as they are."""

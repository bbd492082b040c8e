"""The panel in a terminal: `memsyncd ui --terminal`. Only it imports Textual."""

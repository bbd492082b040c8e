"""Does a file's name read as another's, or as something that a tool has left? Names alone are looked at, and the twins of one.

The rule: what cannot be shown as it is, what looks like another name, and copies that sync tools make are named for a person to
see to; the leftovers of editors and other tools are nobody's concern.
"""

from __future__ import annotations

import os
import re
import unicodedata

CONFLICT_COPY = re.compile(r"\.sync-conflict-\d|[( _-]conflicted copy|_conflict-\d", re.IGNORECASE)
"""Syncthing; Dropbox and Nextcloud; ownCloud."""
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Line ends, escape sequences, and what turns the direction of writing: a name that holds them reads as another."""
LEFTOVER_STARTS = ("#", ".")
"""Emacs, and hidden names."""
LEFTOVER_ENDS = tuple("~ .swp .swo .swn .swx .tmp .vsctmp ___jb_tmp___ ___jb_old___ .part .crdownload .lock".split())
"""Backups, vim, VS Code, JetBrains, downloads."""


def is_utf8(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= char <= "\udcff" for char in name)


def show_name(text: str) -> str:
    """The same, or as near to it as can be encoded."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def has_control(path: str) -> bool:
    """True if it holds what makes it read as another name."""
    return CONTROL.search(path) is not None


def is_conflict_copy(path: str) -> bool:
    return CONFLICT_COPY.search(path) is not None


def is_leftover(name: str) -> bool:
    """True for what editors, agents and other tools put beside a file for a while."""
    if name.startswith(LEFTOVER_STARTS) or name.endswith(LEFTOVER_ENDS) or ".tmp." in name:
        return True
    # Vim tries a folder with the one, and sed -i writes the other.
    return name == "4913" or (name.startswith("sed") and name[3:].isalnum())


def has_twin(place: str, inode: int) -> bool:
    """True if the same name, composed or decomposed, is another file of the same folder."""
    folder, _, name = place.rpartition("/")
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, name)
        try:
            if other != name and os.lstat(f"{folder}/{other}").st_ino != inode:
                return True
        except OSError:
            continue
    return False

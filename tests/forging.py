"""Model files that are changed, with a digest that fits."""

import hashlib
import json


def forged(content, change):
    """The file with its header changed, and the digest made right again."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    inner = json.loads(header["__metadata__"]["eiv"])
    inner = change(inner, header) or inner
    header["__metadata__"] = {"sha256": "0" * 64, "eiv": json.dumps(inner)}
    text = json.dumps(header, separators=(",", ":")).encode()
    whole = len(text).to_bytes(8, "little") + text + content[8 + length :]
    return whole.replace(b"0" * 64, hashlib.sha256(whole).hexdigest().encode(), 1)


def altered(content, name, values):
    """The file with the numbers of an array changed, and the digest made right again."""
    place = 8 + int.from_bytes(content[:8], "little")
    begin, end = json.loads(content[8:place])[name]["data_offsets"]
    assert end - begin == values.nbytes
    body = content[place:]
    return forged(content[:place] + body[:begin] + values.tobytes() + body[end:], lambda inner, header: None)

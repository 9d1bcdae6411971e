"""Why a query failed while it ran, in the words of its owner: which value, and what to write instead. Nothing here speaks of
the engine.
"""

from __future__ import annotations

import re

from headgate.sql.wording import shown

_KINDS = {
    "INT64": "bigint", "INT32": "integer", "INT16": "smallint", "INT8": "tinyint", "INT128": "hugeint", "UINT64": "ubigint",
    "BOOL": "boolean", "FLOAT": "real", "ARRAY": "list", "OBJECT": "object", "VARCHAR": "text",
}  # fmt: skip
"""The engine's names of types, and those of users."""
_TRY = "TRY_CAST gives NULL instead"
_DATES = "a date lies outside of what a timestamp can hold (about the years -290000 to 294000)"
_SAYINGS = {
    r"Could not convert string ['\"](.*?)['\"] to (\w+(?:\([\d,]+\))?)": "'{0}' is no {1}: " + _TRY,
    r"invalid (\w+) field format: \"(.*?)\"": "'{1}' is no {0}: write YYYY-MM-DD HH:MM:SS, or " + _TRY,
    r"(\w+) field value out of range: \"(.*?)\"": "'{1}' is no {0} that exists: " + _TRY,
    r"Type \w+ with value (.*?) can't be cast because the value is out of range for the destination type (\w+)": (
        "{0} is too large for {1}: " + _TRY
    ),
    r"Type \w+ with value (.*?) can't be cast to the destination type (\S+)": "{0} is no {1}: " + _TRY,
    r"Could not cast value (.*?) to (\w+(?:\([\d,]+\))?)": "{0} is too large for {1}: " + _TRY,
    r"Overflow in (\w+) of \w+ \((.*?)\)": "{1} is too large for its type ({0})",
    r"Overflow (?:on|in) (.+?)[.!]?$": "{0} is too large for its type",
    r"Division by zero": "a value is divided by 0: nullif(divisor, 0) gives NULL instead",
    r"Timestamp microseconds out of range: (-?\d+)": _DATES,
    r"(?:Date and time not in timestamp range|(?:Interval|Timestamp|Date|Time)\b.*?out of range)": _DATES,
    r"Could not parse string \"(.*?)\" according to format specifier \"(.*?)\"": (
        "'{0}' does not have the format '{1}': try_strptime gives NULL instead"
    ),
    r"Failed to cast value to \w+: (.*)": "the JSON value {0} is no number: " + _TRY,
    r"Expected (\w+), but got \w+: (.*)": "the JSON value {1} is no {0}: " + _TRY,
    r"Failed to cast value: (.*)": "the JSON value {0} cannot be cast: " + _TRY,
    r"Malformed JSON": "a text is no JSON: json_valid tells which are",
    r"Substring (?:offset|length) outside of supported range": "substring begins or ends further away than it can (4294967295 characters)",
    r"executing the UDF: RuntimeError: (regexp_\w+ .*)": "{0}",
    r"executing the UDF: (\w+): (.*)": "a function failed: {0}: {1}",
}  # fmt: skip
"""What the engine says when a value cannot be computed, and how we say it."""
UNKNOWN = "a value of one of its rows could not be computed"


def why_it_failed(said: str) -> str:
    """What the engine said when a statement failed, in the words of users; `UNKNOWN` where we have no words for it."""
    plain = re.sub(r"^[A-Z]\w+( \w+)* Error: ", "", said)
    if plain == said:
        return said  # our own
    plain = re.sub(r"\n+LINE \d+: .*", "", plain, flags=re.DOTALL)  # the statement that we wrote
    for theirs, ours in _SAYINGS.items():
        if found := re.search(theirs, plain, re.DOTALL):
            return ours.format(*(_KINDS.get(word, shown(_lower(word))) for word in found.groups()))
    return UNKNOWN


def _lower(word: str) -> str:
    """A type in small letters; anything else as it is."""
    return word.lower() if re.fullmatch(r"[A-Z]+(\([\d,]+\)|\[\])?", word) else word

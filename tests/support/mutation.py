"""Random mutations of valid files."""

#: Texts do not grow beyond this.
LONGEST = 300_000

TOKENS = ["", "0", "-1", "1e309", "nan", "99999999999999999999", "0x", "\t", "\n", '"',
          "[", "]", "{", "}", "<", ">", "&", "[0-99999999]", "]]>", "null", "~", ": ",
          "GPU0", "\x1b[4m", "&a ", "*a", "!!python/object", "a" * 999]  # fmt: skip


def mutated(text, others, dice):
    """A text after a few changes of its characters, lines and numbers."""
    # Long: one branch for each kind of change.
    for _ in range(dice.choice((1, 1, 2, 3, 8))):
        text = text[:LONGEST]
        at = dice.randrange(len(text) + 1)
        match dice.randrange(7):
            case 0:
                text = text[:at] + dice.choice(TOKENS) + text[at:]
            case 1:
                text = text[:at] + text[at + dice.randrange(1, 40) :]
            case 2:
                lines = text.splitlines(keepends=True) or [""]
                i, k = dice.randrange(len(lines)), dice.randrange(len(lines))
                lines[i], lines[k] = lines[k], lines[i]
                text = "".join(lines)
            case 3:
                lines = text.splitlines(keepends=True) or [""]
                i = dice.randrange(len(lines))
                text = "".join([*lines[:i], *lines[i : i + 1] * 50, *lines[i:]])
            case 4:
                digits = [i for i, c in enumerate(text[:20000]) if c.isdigit()] or [0]
                i = dice.choice(digits)
                text = text[:i] + dice.choice(TOKENS[:8]) + text[i + 1 :]
            case 5:
                other = dice.choice(others)
                text = text[:at] + other[dice.randrange(len(other) + 1) :]
            case _:
                text = text[:at]
    return text

"""A run on paper: letters and the tale of each attempt, kept as `runs.md` words it.

It shares nothing with the engine. Whether something may have gone out is read from the tale each
time; the engine keeps a mark. Time is whole seconds since the run was queued.
"""

from dataclasses import dataclass, field

WAITS = {1: 10, 2: 20, 3: 40, 4: 80}  # seconds after so many failures; the fifth is the last


@dataclass
class Life:
    """An action, or an undo."""

    letter: str = (
        "P"  # Pending Running Succeeded Failed Unknown sKipped Halted Cancelled Notdeclared
    )
    tale: str = ""  # its ended attempts: Succeeded Failed Unknown sKipped Lost released(X) unBegun
    attempts: int = 0
    failures: int = 0
    lost: int = 0
    until: int = 0  # waits on back-off before this
    halted_by: int | None = None
    repeatable: bool = False

    @property
    def in_doubt(self):
        return bool(set("ULX") & set(self.tale.rpartition("S")[2]))

    def withdraw(self):
        if self.letter == "P":
            self.letter, self.until = "U" if self.in_doubt else "C", 0

    def retry(self):
        self.letter, self.failures, self.lost, self.until = "P", 0, 0, 0


@dataclass
class Model:
    """A run of a chain such as ["H", "Cu"]: halting or continuing, some with an undo."""

    chain: list[str]
    lives: list[Life] = field(init=False)
    undos: dict[int, Life] = field(default_factory=dict)
    cancelled: bool = False

    def __post_init__(self):
        self.lives = [Life() for _ in self.chain]

    @property
    def letters(self):
        return "".join(one.letter for one in self.lives)

    @property
    def flying(self):
        """The life in flight, its ordinal, and whether it is an undo."""
        for n, one in enumerate(self.lives):
            if one.letter == "R":
                return one, n, False
        return next(((one, n, True) for n, one in self.undos.items() if one.letter == "R"), None)

    @property
    def status(self):
        letters = self.letters
        good = [one in "SK" for one in letters]
        if any(one.letter in "PR" for one in self.undos.values()):
            return "Running"
        if set(letters) & set("PR"):
            return "Pending" if set(letters) == {"P"} else "Running"
        if self.cancelled or "C" in letters:
            return "Cancelled"
        if all(good):
            return "Succeeded"
        return "PartiallyFailed" if any(good) else "Failed"

    @property
    def is_open(self):
        return self.status in {"Pending", "Running"}

    @property
    def compensation(self):
        if not self.undos:
            return None
        undone = "".join(one.letter for one in self.undos.values())
        if set(undone) & set("PR"):
            return "Compensating"
        return "Compensated" if set(undone) == {"S"} else "Incomplete"

    def next(self, now):
        """When the next one may go (0 for at once), its ordinal, and whether it is an undo."""
        if self.flying:
            return None
        for n in sorted(self.undos, reverse=True):
            if self.undos[n].letter == "P":
                until = self.undos[n].until
                return (until if until > now else 0), n, True
        waiting = []
        for n, one in enumerate(self.lives):
            if one.letter == "P" and one.until <= now:
                waiting.append((0, n, False))
                break
            if one.letter == "P":
                waiting.append((one.until, n, False))
                if self.chain[n][0] == "H":
                    break
        return min(waiting, default=None)

    def claim(self, n, undo, repeatable):
        one = self.undos[n] if undo else self.lives[n]
        one.letter, one.until, one.repeatable = "R", 0, repeatable
        one.attempts += 1

    def outcome(self, letter, retryable, now):
        one, n, undo = self.flying
        one.lost = 0
        one.tale += letter
        one.failures += letter == "F"
        if letter == "F" and retryable and one.failures < 5 and not self.cancelled:
            one.letter, one.until = "P", now + WAITS[one.failures]
        else:
            one.letter = "S" if undo and letter == "K" else letter
        self.follow(n, undo)

    def lapse(self):
        one, n, undo = self.flying
        one.lost += 1
        again = one.repeatable and not self.cancelled
        one.letter = "P" if again and one.lost < 3 else "U"
        one.tale += "L" if again else "U"
        self.follow(n, undo)

    def release(self, started):
        one, n, undo = self.flying
        again = one.repeatable and not self.cancelled
        if not started:
            one.letter, one.tale = "P", one.tale + "B"
            if self.cancelled:
                one.withdraw()
        else:
            one.letter, one.tale = ("P", one.tale + "X") if again else ("U", one.tale + "U")
        self.follow(n, undo)

    def unserved(self, n, undo):
        one = self.undos[n] if undo else self.lives[n]
        one.letter, one.until = "F", 0
        self.follow(n, undo)

    def follow(self, n, undo):
        one = self.lives[n]
        if undo or self.chain[n][0] == "C" or one.letter not in "FU":
            return
        for later in self.lives[n + 1 :]:
            if later.letter == "P" and not later.in_doubt:
                later.letter, later.until, later.halted_by = "H", 0, n
            later.withdraw()
        declared = any(word.endswith("u") for word in self.chain)
        if one.letter == "F" and not self.cancelled and declared and "S" in self.letters:
            self.roll_back()

    def roll_back(self):
        for n, one in enumerate(self.lives):
            one.withdraw()
            if one.letter == "S":
                self.undos[n] = Life("P" if self.chain[n].endswith("u") else "N")

    def cancel(self, end_flying):
        if end_flying and self.flying:
            one, _, _ = self.flying
            one.letter, one.tale = "U", one.tale + "U"
        for one in (*self.lives, *self.undos.values()):
            one.withdraw()
        self.cancelled = True

    def retry(self, n):
        one = self.lives[n]
        one.tale += "L" if one.letter == "R" else ""
        one.retry()
        halter = None
        for later, other in enumerate(self.lives[n + 1 :], n + 1):
            if other.letter == "H" and other.halted_by == n:
                other.letter, other.halted_by = ("P", None) if halter is None else ("H", halter)
            elif halter is None and self.chain[later][0] == "H" and other.letter in "FU":
                halter = later

    def retry_refusal(self, n, lease_live, workflow):
        one = self.lives[n]
        barred = any(self.chain[m][0] == "H" and self.lives[m].letter in "FU" for m in range(n))
        cases = {
            "run-rolled-back": self.undos,
            "run-cancelled": self.cancelled or self.status == "Cancelled",
            "action-succeeded": one.letter == "S",
            "action-in-flight": one.letter == "R" and lease_live,
            "action-skipped-behind-halt": one.letter == "H" or barred,
            f"workflow-{workflow}": workflow != "enabled",
        }
        return next((code for code, applies in cases.items() if applies), None)

    def abandon_refusal(self, workflow):
        cases = {
            "run-rolled-back": self.undos,
            "run-cancelled": self.cancelled or self.status == "Cancelled",
            "action-in-flight": self.flying,
            "nothing-succeeded": "S" not in self.letters,
            "everything-succeeded": set(self.letters) == {"S"},
            f"workflow-{workflow}": workflow != "enabled",
        }
        return next((code for code, applies in cases.items() if applies), None)

"""The report of an examination: what `dlprobe schema` describes, with names for the parts that a program asks for."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple


@dataclass(frozen=True)
class Finding:
    """A cause that was found. `raw` has all of it: evidence, what was ruled out, remedies."""

    code: str
    name: str
    severity: str
    confidence: str
    message: str
    raw: Dict[str, Any]

    def __str__(self) -> str:
        return f"{self.code} {self.name}: {self.message}"


@dataclass(frozen=True)
class Check:
    """One check of a gate, and its status: pass, warn, fail, skipped or incomplete."""

    id: str
    title: str
    status: str
    text: str


@dataclass(frozen=True)
class Report:
    """A report as dlprobe made it."""

    verdict: str
    """pass, warn, fail or incomplete (something required could not be looked at)."""
    headline: str
    findings: Tuple[Finding, ...]
    """The root cause first."""
    checks: Tuple[Check, ...]
    exit_code: int
    """That of dlprobe: 0, 1 for a finding at or above --fail-on, 3 for incomplete; of `run`, the command's."""
    raw: Dict[str, Any]
    """The whole JSON document."""

    def find(self, code: str) -> Optional[Finding]:
        """The first finding with this code (DLP0102) or name (shm-exhausted)."""
        return next((finding for finding in self.findings if code in (finding.code, finding.name)), None)

    def __str__(self) -> str:
        lines: List[str] = [f"{self.verdict}: {self.headline}"]
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)


def parse_report(raw: Dict[str, Any], exit_code: int) -> Report:
    """The report in a JSON document; ValueError if it is not one of a version that this module knows."""
    version = str(raw.get("schema_version"))
    if not version.startswith("1."):
        raise ValueError(f"a report of schema version {version}; this module reads 1.x")
    findings = [Finding(code=item["code"], name=item["name"], severity=item["severity"],
                        confidence=item["confidence"], message=item["message"], raw=item)
                for item in raw["findings"]]
    checks = [Check(id=item["id"], title=item["title"], status=item["status"], text=item.get("text", ""))
              for item in raw.get("checks", ())]
    return Report(verdict=raw["summary"]["verdict"], headline=raw["summary"]["headline"], findings=tuple(findings),
                  checks=tuple(checks), exit_code=exit_code, raw=raw)

"""Renders the Helm chart of `deploy/kubernetes`: what Helm would send to Kubernetes.

    build/deploy/bin/python -m tests.deploy.render_chart                    deploy/kubernetes.yaml
    build/deploy/bin/python -m tests.deploy.render_chart '{"auth": …}'      with these values
    build/deploy/bin/python -m tests.deploy.render_chart --lint '{…}'       what `helm lint` says

Runs in the environment that `make check-tools` makes, without the rest of the project: Helm has
75 MB.
"""

import json
import sys
from pathlib import Path
from typing import Final

import helm_python as helm  # type: ignore[import-not-found]  # in an environment of its own

CHART: Final = Path(__file__).parents[2] / "deploy" / "kubernetes" / "amqp-server"
RELEASE: Final = "amqp-server"
NAMESPACE: Final = "default"
_INFO: Final = 1
"""Severity of what need not be done: that a chart should have an icon."""

# The order in which Helm makes objects.
_KINDS: Final = (
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "PersistentVolumeClaim",
    "Role",
    "RoleBinding",
    "Service",
    "StatefulSet",
    "CronJob",
)
_HEADING: Final = """\
# One broker on Kubernetes, with its data on a volume that moves with it (docs/kubernetes.md). This
# is what the chart in deploy/kubernetes/amqp-server renders with its defaults (`make kubernetes`).
# Make the secret first:
#
#   kubectl create secret generic amqp-server --from-literal=rabbitmq-password=...
#   kubectl apply --filename deploy/kubernetes.yaml
"""


def render(values: dict[str, object]) -> str:
    """Return the objects that the chart makes with these values, as one YAML text."""
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        rendered = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    documents = [
        document.strip("\n")
        for path, text in rendered.items()
        if not path.endswith("NOTES.txt")
        for document in f"\n{text}".split("\n---\n")
        if document.strip()
    ]
    return _HEADING + "".join(f"---\n{document}\n" for document in sorted(documents, key=_place))


def notes(values: dict[str, object]) -> str:
    """Return what Helm tells the user after an installation."""
    with helm.Chart.load(CHART) as chart:
        rendered = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    return next(str(text) for path, text in rendered.items() if path.endswith("NOTES.txt"))


def _place(document: str) -> tuple[int, str]:
    kind = document.partition("kind: ")[2].partition("\n")[0]
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS), kind


def main(arguments: list[str]) -> int:
    """Print what is asked for; return the exit code."""
    words = [word for word in arguments if not word.startswith("--")]
    values = json.loads(words[0]) if words else {}
    try:
        if "--lint" in arguments:
            report = helm.lint(CHART, values, strict=True, namespace=NAMESPACE)
            complaints = [each["error"] for each in report["messages"] if each["severity"] > _INFO]
            complaints += report["errors"]
            sys.stdout.write("".join(f"{each}\n" for each in complaints))
            return 1 if complaints else 0
        sys.stdout.write(notes(values) if "--notes" in arguments else render(values))
    except helm.HelmError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

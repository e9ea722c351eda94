"""Other people's rules for the files of deploy/, and Helm: `make check-tools` runs this."""

import copy
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.docs.test_commands import unknown_words
from tests.servers import REPOSITORY

_PROGRAMS: Final = REPOSITORY / "build" / "deploy" / "bin"
_CHART: Final = REPOSITORY / "deploy" / "kubernetes" / "amqp-server"

VALUES: Final[dict[str, dict[str, Any]]] = {
    "everything": {
        "global": {
            "imageRegistry": "registry.example:5000",
            "imagePullSecrets": ["pull"],
            "defaultStorageClass": "fast",
        },
        "image": {
            "repository": "brokers/amqp-server",
            "digest": f"sha256:{'0123456789abcdef' * 4}",
            "pullPolicy": "Always",
        },
        "nameOverride": "broker",
        "commonLabels": {"team": "orders", "app.kubernetes.io/name": "not-this"},
        "commonAnnotations": {"note": "one"},
        "auth": {
            "username": "ops",
            "password": 'a"b',
            "existingSecretPasswordKey": "password",
            "tls": {
                "enabled": True,
                "only": True,
                "sslOptionsVerify": "verify_peer",
                "failIfNoPeerCert": True,
                "certManager": {
                    "enabled": True,
                    "issuerRef": {"kind": "Issuer", "name": "ca"},
                    "dnsNames": ["rabbit.example"],
                },
            },
        },
        "settings": {
            "heartbeat": "30s",
            "ring-size": 4194304,
            "guest-from-anywhere": True,
            "on-disk-stall": "alarm",
        },
        "extraConfiguration": "{{ if true }}\n  heartbeat = 30\n{{ end }}\nchannel_max = 9\n",
        "loadDefinition": {
            "enabled": True,
            "existingSecret": "{{ .Release.Name }}-definitions",
            "file": "/app/all.json",
        },
        "extraSecrets": {"amqp-server-definitions": {"all.json": '{"queues": []}\n'}},
        "extraEnvVars": [{"name": "TZ", "value": "UTC"}],
        "extraEnvVarsSecret": "more",
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "extraDeploy": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}},
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-two\n",
        ],
        "persistence": {
            "accessModes": ["ReadWriteOnce"],
            "size": "8Gi",
            "annotations": {"a": "b"},
            "selector": {"matchLabels": {"a": "b"}},
        },
        "resources": {"limits": {"memory": "4Gi"}},
        "terminationGracePeriodSeconds": 90,
        "nodeLostTolerationSeconds": 10,
        "podLabels": {"team": "pods"},
        "podAnnotations": {"z": "1"},
        "podSecurityContext": {"runAsUser": 20000},
        "containerSecurityContext": {"readOnlyRootFilesystem": False},
        "priorityClassName": "high",
        "schedulerName": "other",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "podAntiAffinityPreset": "hard",
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {},
            }
        ],
        "serviceAccount": {"name": "broker", "annotations": {"role": "none"}},
        "service": {
            "type": "LoadBalancer",
            "annotations": {"balancer": "internal"},
            "loadBalancerClass": "class",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "externalTrafficPolicy": "Local",
            "ports": {"amqpTls": 1, "manager": 2, "managerTls": 3, "metrics": 4},
        },
        "pdb": {"maxUnavailable": 0},
        "networkPolicy": {
            "allowExternal": False,
            "extraIngress": [{"ports": [{"port": "metrics"}]}],
        },
        "metrics": {
            "serviceMonitor": {
                "enabled": True,
                "namespace": "monitoring",
                "interval": "10s",
                "scrapeTimeout": "5s",
                "labels": {"release": "prometheus", "team": "monitors"},
            }
        },
    },
    "others": {
        "image": {"registry": "registry.example", "tag": "1", "pullSecrets": ["pull"]},
        "fullnameOverride": "rabbit",
        "auth": {
            "existingPasswordSecret": "{{ .Release.Name }}-password",
            "tls": {"enabled": True, "existingSecret": "certificate"},
        },
        "persistence": {"existingClaim": "claim"},
        "affinity": {"nodeAffinity": {}},
        "serviceAccount": {"create": False},
        "service": {"ports": {"amqp": 5}},
        "pdb": {"create": False},
        "networkPolicy": {"enabled": False},
        "metrics": {"podAnnotations": {"scrape": "yes"}},
    },
    "back-ups": {
        "backup": {
            "enabled": True,
            "schedule": "@hourly",
            "keep": 48,
            "startingDeadlineSeconds": 60,
            "successfulJobsHistoryLimit": 0,
            "failedJobsHistoryLimit": 1,
            "image": {
                "registry": "registry.example",
                "repository": "tools/kubectl",
                "digest": f"sha256:{'0123456789abcdef' * 4}",
                "pullPolicy": "Always",
            },
            "resources": {"limits": {"memory": "64Mi"}},
            "persistence": {"storageClass": "slow", "size": "1Ti"},
        },
        "fullnameOverride": "a-broker-with-a-name-of-more-than-forty-five-letters",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "image": {"pullSecrets": ["pull"]},
    },
    "a claim for back-ups": {
        "backup": {
            "enabled": True,
            "image": {"tag": "1.36.0"},
            "persistence": {"existingClaim": "{{ .Release.Name }}-other"},
        },
        "networkPolicy": {"enabled": False},
    },
    "a storage class": {"persistence": {"storageClass": "-"}},
    "an older name": {"global": {"storageClass": "fast"}},
    "no volume": {"persistence": {"enabled": False}, "podAntiAffinityPreset": ""},
}
"""Values with which the chart is rendered."""

WRONG: Final = {
    '{"replicaCount": 3}': "there is no cluster",
    '{"clustering": {"enabled": true}}': "'clustering' not allowed",
    '{"settings": {"hartbeat": "30s"}}': "'hartbeat'",
    '{"settings": {"port": "1"}}': "settings.port: the chart sets it",
    '{"settings": {"memory-watermark": 0.5}}': "/settings/memory-watermark",
    '{"auth": {"tls": {"enabled": true}}}': "set auth.tls.existingSecret",
    '{"auth": {"tls": {"certManager": {"enabled": true}}}}': "does nothing without auth.tls",
    '{"auth": {"tls": {"enabled": true, "certManager": {"enabled": true}}}}': "issuerRef.name",
    '{"auth": {"tls": {"failIfNoPeerCert": true}}}': "sslOptionsVerify=verify_peer",
    '{"auth": {"password": "a", "existingPasswordSecret": "b"}}': "either",
    '{"auth": {"username": ""}}': "/auth/username",
    '{"loadDefinition": {"enabled": true}}': "set loadDefinition.existingSecret",
    '{"persistence": {"accessModes": ["ReadWriteMany"]}}': "/persistence/accessModes/0",
    '{"persistence": {"size": 8}}': "/persistence/size",
    '{"pdb": {"maxUnavailable": 2}}': "/pdb/maxUnavailable",
    '{"extraConfiguration": "a = b\\nlisteners.tcp.default = 1"}': "the chart sets the ports",
    '{"extraConfiguration": "management.tcp.port = 1"}': "the chart sets the ports",
    '{"service": {"ports": {"amqp": 15672}}}': "two ports have the same number",
    '{"loadDefinition": {"file": "/etc/all.json"}}': "/loadDefinition/file",
    '{"metrics": {"enabled": false}}': "/metrics/enabled",
    '{"backup": {"enabled": true}}': "set backup.image.tag",
    '{"backup": {"keep": 0}}': "/backup/keep",
    '{"backup": {"keep": 10001}}': "/backup/keep",
    '{"backup": {"schedule": "daily"}}': "/backup/schedule",
}
"""Values that are refused, each with a part of the message."""


def _keys_twice(text: str) -> list[str]:
    """Return the keys that are twice in a mapping: some who read what Helm renders refuse them."""
    found = []
    nodes = [node for node in yaml.compose_all(text, yaml.SafeLoader) if node is not None]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            names = [key.value for key, _ in node.value]
            found += [name for name in set(names) if names.count(name) > 1]
            nodes += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return found


def _complaints(program: str, *words: str) -> str:
    done = subprocess.run(
        [str(_PROGRAMS / program), *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _chart(*words: str) -> tuple[int, str]:
    """Ask Helm; return the exit code, and what it has written."""
    done = subprocess.run(
        [str(_PROGRAMS / "python"), "-m", "tests.deploy.render_chart", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def _rendered(values: dict[str, Any], *words: str) -> str:
    code, text = _chart(*words, json.dumps(values))
    assert code == 0, text
    return text


def test_hadolint_has_nothing_to_say_about_the_dockerfile() -> None:
    assert _complaints("hadolint", "deploy/Dockerfile") == ""


def test_shellcheck_has_nothing_to_say_about_the_scripts() -> None:
    scripts = ["deploy/container-start", "deploy/restore-drill", "deploy/volume/attach-volume"]
    done = subprocess.run(
        ["shellcheck", *scripts], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_manifest_has_the_schema_of_kubernetes() -> None:
    assert _complaints("kubernetes-validate", "--strict", "deploy/kubernetes.yaml") == ""


def test_the_manifest_is_what_the_chart_renders_with_its_defaults() -> None:
    assert _rendered({}) == (REPOSITORY / "deploy" / "kubernetes.yaml").read_text()


@pytest.mark.parametrize("name", VALUES)
def test_what_the_chart_renders_has_the_schema_of_kubernetes(tmp_path: Path, name: str) -> None:
    text = _rendered(VALUES[name])
    assert _keys_twice(text) == []
    (tmp_path / "all.yaml").write_text(text)
    assert _complaints("kubernetes-validate", "--strict", str(tmp_path / "all.yaml")) == ""


@pytest.mark.parametrize("values", [{}, *VALUES.values()], ids=["defaults", *VALUES])
def test_helm_has_nothing_to_say_about_the_chart(values: dict[str, Any]) -> None:
    assert _chart("--lint", json.dumps(values)) == (0, "")


@pytest.mark.parametrize("values", WRONG)
def test_values_that_cannot_work_are_refused(values: str) -> None:
    code, text = _chart(values)
    assert code == 1
    assert WRONG[values] in text


def _named(node: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all values that a schema names."""
    for name, below in node["properties"].items():
        path = (*above, name)
        if "properties" in below:
            yield from _named(below, path)
        else:
            yield path


def _without(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the values without one of them; None if they do not have it."""
    others = node = copy.deepcopy(values)
    for name in path[:-1]:
        node = node.get(name, {})
    return others if node.pop(path[-1], None) is not None else None


def test_each_value_changes_what_is_rendered() -> None:
    schema = json.loads((_CHART / "values.schema.json").read_text())
    found = set()
    for values in VALUES.values():
        whole = _rendered(values)
        for path in _named(schema):
            others = _without(values, path)
            if others is not None:
                code, text = _chart(json.dumps(others))
                # Another value may need this one.
                assert code == 1 or text != whole, path
                found.add(path)
    only = {("replicaCount",), ("metrics", "enabled")}
    assert set(_named(schema)) - found == only


def test_the_back_ups_of_the_chart_fit_together() -> None:
    text = _rendered(VALUES["back-ups"])
    found: dict[str, list[dict[str, Any]]] = {}
    for each in yaml.safe_load_all(text):
        found.setdefault(each["kind"], []).append(each)
    (stateful,), (job,) = found["StatefulSet"], found["CronJob"]
    template = stateful["spec"]["template"]
    (container,) = template["spec"]["containers"]
    job_template = job["spec"]["jobTemplate"]["spec"]["template"]
    (kubectl,) = job_template["spec"]["containers"]
    pod = f"{stateful['metadata']['name']}-0"

    words = [*kubectl["command"], *kubectl["args"]]
    command = words[words.index("--") + 1 :]
    assert words[: -len(command)] == [
        *("kubectl", "exec", "--namespace=default", pod),
        *(f"--container={container['name']}", "--"),
    ]
    assert unknown_words(shlex.join(command)) == []
    assert command[-2:] == ["--into=/backup", "--keep=48"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["backup"] == "/backup"
    (claim,) = found["PersistentVolumeClaim"]
    volumes = {each["name"]: each for each in template["spec"]["volumes"]}
    used = volumes["backup"]["persistentVolumeClaim"]["claimName"]
    assert used == claim["metadata"]["name"] == job["metadata"]["name"]
    # A job that is made adds 11 characters.
    assert len(job["metadata"]["name"]) <= 52

    # One pod, and nothing else.
    ((role,), (binding,)) = found["Role"], found["RoleBinding"]
    assert {name for rule in role["rules"] for name in rule["resourceNames"]} == {pod}
    assert {each for rule in role["rules"] for each in rule["resources"]} == {"pods", "pods/exec"}
    (subject,) = binding["subjects"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert subject["name"] == job_template["spec"]["serviceAccountName"]
    assert subject["name"] in {each["metadata"]["name"] for each in found["ServiceAccount"]}
    assert subject["name"] != template["spec"]["serviceAccountName"]

    # No client and no policy for the broker takes the pod of the job for the broker.
    labels = job_template["metadata"]["labels"].items()
    assert not found["Service"][0]["spec"]["selector"].items() <= labels
    assert not found["PodDisruptionBudget"][0]["spec"]["selector"]["matchLabels"].items() <= labels
    selected = [
        each["spec"]["podSelector"]["matchLabels"].items() <= labels
        for each in found["NetworkPolicy"]
    ]
    assert sorted(selected) == [False, True]


def test_without_back_ups_there_is_none_of_their_objects() -> None:
    kinds = {each["kind"] for each in yaml.safe_load_all(_rendered({}))}
    assert kinds.isdisjoint({"CronJob", "Role", "RoleBinding", "PersistentVolumeClaim"})
    own = _rendered(VALUES["a claim for back-ups"])
    assert "kind: PersistentVolumeClaim" not in own
    assert "claimName: amqp-server-other" in own


def test_a_key_that_is_twice_is_found() -> None:
    assert _keys_twice("a:\n  - b: 1\n    c: 2\n    b: 3\n") == ["b"]


def test_the_notes_say_how_to_go_on() -> None:
    text = _rendered({}, "--notes")
    assert "amqp://amqp-server.default:5672" in text
    assert "create secret generic amqp-server" in text
    others = _rendered(VALUES["everything"], "--notes")
    assert "amqps://amqp-server-broker.default:1 " in others
    assert "create secret" not in others
    assert "gone with the pod" in _rendered(VALUES["no volume"], "--notes")


def test_both_programs_find_mistakes() -> None:
    wrong = REPOSITORY / "deploy" / "compose.yaml"
    assert _complaints("kubernetes-validate", "--strict", str(wrong))
    assert _complaints("hadolint", str(wrong))

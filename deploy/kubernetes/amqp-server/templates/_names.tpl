{{- define "amqp-server.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "amqp-server.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := include "amqp-server.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "amqp-server.selector" -}}
app.kubernetes.io/name: {{ include "amqp-server.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of an object: (list $ labels). Those that select the pod win. */}}
{{- define "amqp-server.labels" -}}
{{- $ := index . 0 -}}
{{- $own := include "amqp-server.selector" $ | fromYaml -}}
{{- toYaml (merge (dict) $own (index . 1) $.Values.commonLabels) }}
{{- end }}

{{/* Name, labels and annotations of an object: (list $ labels annotations). */}}
{{- define "amqp-server.metadata" -}}
{{- $ := index . 0 -}}
name: {{ include "amqp-server.fullname" $ }}
{{ include "amqp-server.described" . }}
{{- end }}

{{/* Labels and annotations of an object: (list $ labels annotations). */}}
{{- define "amqp-server.described" -}}
{{- $ := index . 0 -}}
labels:
  {{- include "amqp-server.labels" (list $ (index . 1)) | nindent 2 }}
{{- with merge (dict) (index . 2) $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "amqp-server.image" -}}
{{- $image := .Values.image }}
{{- with default .Values.global.imageRegistry $image.registry }}{{ . }}/{{ end }}
{{- $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end }}
{{- end }}

{{/* The name of a CronJob has 52 characters at most. */}}
{{- define "amqp-server.backup" -}}
{{- printf "%s-backup" (include "amqp-server.fullname" . | trunc 45 | trimSuffix "-") }}
{{- end }}

{{/* Labels of the pods that start back-ups: others than those that select the broker's pod. */}}
{{- define "amqp-server.backupSelector" -}}
app.kubernetes.io/name: {{ include "amqp-server.name" . | trunc 56 | trimSuffix "-" }}-backup
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "amqp-server.backupImage" -}}
{{- $image := .Values.backup.image }}
{{- with default .Values.global.imageRegistry $image.registry }}{{ . }}/{{ end }}
{{- $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}
{{- else }}:{{ required "set backup.image.tag to a version of kubectl that fits the cluster, or backup.image.digest" $image.tag }}
{{- end }}
{{- end }}

{{- define "amqp-server.backupClaim" -}}
{{- tpl .Values.backup.persistence.existingClaim . | default (include "amqp-server.backup" .) }}
{{- end }}

{{- define "amqp-server.passwordSecret" -}}
{{- if .Values.auth.password }}
{{- include "amqp-server.fullname" . }}
{{- else }}
{{- tpl .Values.auth.existingPasswordSecret . | default (include "amqp-server.fullname" .) }}
{{- end }}
{{- end }}

{{- define "amqp-server.tlsSecret" -}}
{{- $tls := .Values.auth.tls }}
{{- if $tls.certManager.enabled }}
{{- include "amqp-server.fullname" . }}-tls
{{- else }}
{{- required "set auth.tls.existingSecret to a secret with tls.crt and tls.key, or auth.tls.certManager.enabled" (tpl $tls.existingSecret .) }}
{{- end }}
{{- end }}

{{- define "amqp-server.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "amqp-server.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Ports that are open, as {name: {container, service}}, in YAML. */}}
{{- define "amqp-server.ports" -}}
{{- $ports := .Values.service.ports }}
{{- $tls := .Values.auth.tls }}
{{- if not (and $tls.enabled $tls.only) }}
amqp: {container: 5672, service: {{ $ports.amqp }}}
{{- end }}
{{- if $tls.enabled }}
amqps: {container: 5671, service: {{ $ports.amqpTls }}}
management-tls: {container: 15671, service: {{ $ports.managerTls }}}
{{- end }}
management: {container: 15672, service: {{ $ports.manager }}}
metrics: {container: 15692, service: {{ $ports.metrics }}}
{{- end }}

{{/* Settings that follow from other values, in YAML. */}}
{{- define "amqp-server.ownSettings" -}}
[storage-path, ephemeral, host, port, management-host, management-port, metrics-port, rabbitmq-conf,
load-definitions, default-user, default-pass-file, tls-port, tls-only, tls-certificate, tls-key,
tls-ca, tls-verify, tls-fail-if-no-peer-cert, management-tls-port]
{{- end }}

{{/* What would not work is refused here. */}}
{{- define "amqp-server.checked" -}}
{{- if ne (int .Values.replicaCount) 1 }}
{{- fail "replicaCount must be 1: there is no cluster. Install the chart again under another name for another broker with its own queues" }}
{{- end }}
{{- if and .Values.auth.password .Values.auth.existingPasswordSecret }}
{{- fail "set either auth.password or auth.existingPasswordSecret" }}
{{- end }}
{{- if and .Values.loadDefinition.enabled (not .Values.loadDefinition.existingSecret) }}
{{- fail "set loadDefinition.existingSecret to a secret with the file of definitions" }}
{{- end }}
{{- range (include "amqp-server.ownSettings" . | fromYamlArray) }}
{{- if hasKey $.Values.settings . }}
{{- fail (printf "settings.%s: the chart sets it, by its other values" .) }}
{{- end }}
{{- end }}
{{- range splitList "\n" (tpl .Values.extraConfiguration .) }}
{{- if regexMatch "^\\s*(listeners|num_acceptors|management\\.(tcp|ssl|listener)|prometheus\\.(tcp|ssl))\\." . }}
{{- fail (printf "extraConfiguration: %s: the chart sets the ports of the server" (trim .)) }}
{{- end }}
{{- end }}
{{- $ports := include "amqp-server.ports" . | fromYaml }}
{{- $numbers := list }}
{{- range $ports }}{{ $numbers = append $numbers .service }}{{ end }}
{{- if ne (len $numbers) (len (uniq $numbers)) }}
{{- fail "service.ports: two ports have the same number" }}
{{- end }}
{{- $tls := .Values.auth.tls }}
{{- if and $tls.certManager.enabled (not $tls.enabled) }}
{{- fail "auth.tls.certManager.enabled does nothing without auth.tls.enabled" }}
{{- end }}
{{- if and $tls.failIfNoPeerCert (ne $tls.sslOptionsVerify "verify_peer") }}
{{- fail "auth.tls.failIfNoPeerCert does nothing without auth.tls.sslOptionsVerify=verify_peer" }}
{{- end }}
{{- end }}

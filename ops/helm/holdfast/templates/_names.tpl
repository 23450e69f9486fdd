{{/* Names, labels, addresses. */}}

{{- define "holdfast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains "holdfast" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-holdfast" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* Labels by which objects are chosen: {root, component}. */}}
{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* An image: a map with repository, tag, digest. */}}
{{- define "holdfast.imageName" -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag }}{{- end -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{- $image := .Values.image -}}
{{- include "holdfast.imageName" (dict "repository" $image.repository "digest" $image.digest "tag" ($image.tag | default .Chart.AppVersion)) -}}
{{- end -}}

{{- define "holdfast.nodeSecret" -}}
{{- if .Values.keys.create -}}
{{- printf "%s-node-keys" (include "holdfast.fullname" .) -}}
{{- else -}}
{{- required "keys.nodeSecret: expected the name of a Secret with NODE.key for each node, as keys.create is false" .Values.keys.nodeSecret -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.apiSecret" -}}
{{- if .Values.keys.create -}}
{{- printf "%s-api-keys" (include "holdfast.fullname" .) -}}
{{- else -}}
{{- required "keys.apiSecret: expected the name of a Secret with operator, metrics and client, as keys.create is false" .Values.keys.apiSecret -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.scheme" -}}
{{- if .Values.http.tlsSecret -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* The Service of the daemon's pod, ready or not. */}}
{{- define "holdfast.daemonHost" -}}
{{- printf "%s-daemon.%s.svc" (include "holdfast.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* The Service that answers HTTP, whether a model is ready or not. */}}
{{- define "holdfast.httpService" -}}
{{- printf "%s-%s" (include "holdfast.fullname" .) (.Values.ha.enabled | ternary "front" "daemon") -}}
{{- end -}}

{{- define "holdfast.httpHost" -}}
{{- printf "%s.%s.svc" (include "holdfast.httpService" .) .Release.Namespace -}}
{{- end -}}

{{- define "holdfast.url" -}}
{{- printf "%s://%s:%d" (include "holdfast.scheme" .) (include "holdfast.httpHost" .) (int .Values.http.port) -}}
{{- end -}}

{{/* A value as text: whole numbers without an exponent. */}}
{{- define "holdfast.text" -}}
{{- $whole := false -}}
{{- if kindIs "float64" . -}}{{- $whole = eq (floor .) . -}}{{- end -}}
{{- if $whole -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* The flags --config of all knobs, as a YAML list. */}}
{{- define "holdfast.knobs" -}}
{{- range $name, $value := .Values.config }}
- --config
- {{ printf "%s=%s" $name (include "holdfast.text" $value) | quote }}
{{- end }}
{{- end -}}

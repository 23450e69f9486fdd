{{/* Two machines as one service (ha.enabled): the daemon's StatefulSet has two pods, a primary and its
     standby; a Lease says who is who. */}}

{{/* Addresses of the daemon's listeners, separated by commas, as --join takes them. */}}
{{- define "holdfast.listeners" -}}
{{- $name := include "holdfast.fullname" . -}}
{{- if .Values.ha.enabled -}}
{{- $urls := list -}}
{{- range $i := until 2 -}}
{{- $urls = append $urls (printf "tcp://%s-%d.%s-pair.%s.svc:%d" $name $i $name $.Release.Namespace (int $.Values.daemon.port)) -}}
{{- end -}}
{{- join "," $urls -}}
{{- else -}}
tcp://{{ include "holdfast.daemonHost" . }}:{{ int .Values.daemon.port }}
{{- end -}}
{{- end -}}

{{- define "holdfast.standbySecret" -}}
{{- if .Values.keys.create -}}
{{- printf "%s-standby-keys" (include "holdfast.fullname" .) -}}
{{- else -}}
{{- required "ha.standbySecret: expected the name of a Secret with RELEASE-0.key and RELEASE-1.key, as keys.create is false" .Values.ha.standbySecret -}}
{{- end -}}
{{- end -}}

{{/* Flags of `serve` for a machine of the pair. */}}
{{- define "holdfast.pairFlags" -}}
- --advertise
- tcp://$(POD).{{ include "holdfast.fullname" . }}-pair.{{ .Release.Namespace }}.svc:{{ int .Values.daemon.port }}
- --record
- k8s://{{ .Release.Namespace }}/{{ include "holdfast.fullname" . }}
- --standby-key
- /run/holdfast/standby.key
{{- end -}}

{{- define "holdfast.podEnv" -}}
- name: POD
  valueFrom:
    fieldRef: {apiVersion: v1, fieldPath: metadata.name}
{{- end -}}

{{/* Not both on one machine, or in one zone. Of daemon.affinity a podAntiAffinity of its own comes first. */}}
{{- define "holdfast.pairAffinity" -}}
{{- $term := dict "topologyKey" .Values.ha.topologyKey "labelSelector" (dict "matchLabels" (include "holdfast.selector" (dict "root" . "component" "daemon") | fromYaml)) -}}
{{- $apart := dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term) -}}
{{- if not .Values.ha.required -}}
{{- $apart = dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term)) -}}
{{- end -}}
{{- toYaml (merge (deepCopy .Values.daemon.affinity) (dict "podAntiAffinity" $apart)) -}}
{{- end -}}

{{/* A standby has no HTTP, and is whole while it is in step: each is asked by its own socket. */}}
{{- define "holdfast.pairProbes" -}}
# Waits for a key and copies the database meanwhile.
startupProbe:
  exec: {command: [/usr/bin/holdfast, ha, status, --json]}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 240
livenessProbe:
  exec: {command: [/usr/bin/holdfast, ha, status, --json]}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
# The primary, or a standby that could take over: the disruption budget spares the one while the other
# is not ready, and a rolling update waits.
readinessProbe:
  exec: {command: [/usr/bin/holdfast, ha, status, --check, --json]}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Beside the daemon: `keys` makes keys with the daemon that runs, where that is the primary, as one
     made in a copy of the database would not be in the other. `publish` brings them into the Secrets,
     which are the truth, and back. It alone has the token for that, and a user of its own. */}}
{{- define "holdfast.pairContainers" -}}
- name: keys
  image: {{ include "holdfast.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/tools/busybox, sh, /scripts/make-keys.sh, pair]
  env:
    {{- include "holdfast.daemonEnv" . | nindent 4 }}
    {{- include "holdfast.podEnv" . | nindent 4 }}
    {{- include "holdfast.keyEnv" . | nindent 4 }}
    - name: KEYS_DIR
      value: /run/manifest/keys
    - name: GENERATION
      value: {{ int .Values.keys.generation | quote }}
    - name: STANDBYS
      value: {{ include "holdfast.fullname" . }}-0 {{ include "holdfast.fullname" . }}-1
    - name: STANDBY_SECRET
      value: {{ include "holdfast.standbySecret" . }}
    - name: STANDBY_KEY
      value: /run/holdfast/standby.key
  {{- include "holdfast.smallResources" . | nindent 2 }}
  {{- include "holdfast.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - name: state
      mountPath: /var/lib/holdfast
    - name: tools
      mountPath: /tools
      readOnly: true
    - name: scripts
      mountPath: /scripts
      readOnly: true
    - name: manifest
      mountPath: /run/manifest
    - name: pair
      mountPath: /run/holdfast
    - name: tmp
      mountPath: /tmp
- name: publish
  image: {{ include "holdfast.imageName" .Values.keys.kubectl }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/tools/busybox, sh, /scripts/publish-keys.sh]
  env:
    - name: HOME
      value: /tmp
    - name: BUSYBOX
      value: /tools/busybox
    - name: NAMESPACE
      value: {{ .Release.Namespace }}
    - name: SECRETS
      value: {{ include "holdfast.nodeSecret" . }} {{ include "holdfast.apiSecret" . }} {{ include "holdfast.standbySecret" . }}
    - name: MANIFEST
      value: /run/manifest/secrets.yaml
  {{- include "holdfast.smallResources" . | nindent 2 }}
  securityContext:
    {{- (include "holdfast.containerSecurity" . | fromYaml).securityContext | toYaml | nindent 4 }}
    runAsUser: {{ add (int64 .Values.userId) 1 }}
  volumeMounts:
    - name: tools
      mountPath: /tools
      readOnly: true
    - name: scripts
      mountPath: /scripts
      readOnly: true
    - name: manifest
      mountPath: /run/manifest
    - name: keys-token
      mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      readOnly: true
    - name: publish-tmp
      mountPath: /tmp
{{- end -}}

{{/* Where the keys are yours: the one of this pod, for its user alone. */}}
{{- define "holdfast.pairKeyContainer" -}}
- name: key
  image: {{ include "holdfast.imageName" .Values.keys.busybox }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - /bin/sh
    - -ec
    - umask 077; cat "/keys/$POD.key" >/run/holdfast/standby.key
  env:
    {{- include "holdfast.podEnv" . | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 32Mi}
  {{- include "holdfast.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - name: standby-keys
      mountPath: /keys
      readOnly: true
    - name: pair
      mountPath: /run/holdfast
{{- end -}}

{{- define "holdfast.pairVolumes" -}}
- name: pair
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: record-token
  {{- include "holdfast.tokenSources" . | nindent 2 }}
{{- if .Values.keys.create }}
- name: tools
  emptyDir: {}
- name: scripts
  configMap:
    name: {{ include "holdfast.fullname" . }}-scripts
- name: manifest
  emptyDir: {medium: Memory, sizeLimit: 8Mi}
- name: publish-tmp
  emptyDir: {}
- name: keys-token
  secret:
    secretName: {{ include "holdfast.fullname" . }}-keys-token
    defaultMode: 0440
{{- else }}
- name: standby-keys
  secret:
    secretName: {{ include "holdfast.standbySecret" . }}
    defaultMode: 0440
{{- end }}
{{- end -}}

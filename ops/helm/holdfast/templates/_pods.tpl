{{/* What all pods have in common. */}}

{{/* enableServiceLinks: variables HOLDFAST_… of Services would be taken for knobs. */}}
{{- define "holdfast.podCommon" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ int64 .Values.userId }}
  runAsGroup: {{ int64 .Values.userId }}
  fsGroup: {{ int64 .Values.userId }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "holdfast.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Small containers that prepare or ask. */}}
{{- define "holdfast.smallResources" -}}
resources:
  requests: {cpu: 50m, memory: 64Mi}
  limits: {memory: 512Mi}
{{- end -}}

{{- define "holdfast.modelsMount" -}}
{{- if or .Values.models.volume.claim .Values.models.volume.hostPath }}
- name: models
  mountPath: /models
  readOnly: true
{{- end }}
{{- end -}}

{{- define "holdfast.modelsVolume" -}}
{{- with .Values.models.volume }}
{{- if and .claim .hostPath }}{{ fail "models.volume: expected claim or hostPath, not both" }}{{ end }}
{{- if .claim }}
- name: models
  persistentVolumeClaim:
    claimName: {{ .claim }}
    readOnly: true
{{- else if .hostPath }}
- name: models
  hostPath:
    path: {{ .hostPath }}
    type: Directory
{{- end }}
{{- end }}
{{- end -}}

{{/* Placement of a pod: nodeSelector, affinity and their like of a map. */}}
{{- define "holdfast.placement" -}}
{{- range $name := list "nodeSelector" "affinity" "topologySpreadConstraints" "priorityClassName" "runtimeClassName" }}
{{- with index $ $name }}
{{ $name }}:
  {{- if kindIs "string" . }} {{ . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Environment of a container that asks the daemon over HTTP: {root, key}. */}}
{{- define "holdfast.clientEnv" -}}
- name: HOLDFAST_URL
  value: {{ include "holdfast.url" .root }}
- name: HOLDFAST_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ include "holdfast.apiSecret" .root }}
      key: {{ .key }}
{{- if .root.Values.http.tlsSecret }}
- name: SSL_CERT_FILE
  value: /etc/holdfast/tls/ca.crt
{{- end }}
{{- end -}}

{{/* A pod that runs one verb over HTTP and ends: {root, component, key, name, args}. */}}
{{- define "holdfast.verbPod" -}}
restartPolicy: {{ .restartPolicy }}
serviceAccountName: {{ include "holdfast.fullname" .root }}-client
{{ include "holdfast.podCommon" .root }}
containers:
  - name: {{ .name }}
    image: {{ include "holdfast.image" .root }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [/usr/bin/holdfast]
    args:
      {{- toYaml .args | nindent 6 }}
    env:
      {{- include "holdfast.clientEnv" (dict "root" .root "key" .key) | nindent 6 }}
    {{- include "holdfast.smallResources" .root | nindent 4 }}
    {{- include "holdfast.containerSecurity" .root | nindent 4 }}
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      {{- if .root.Values.http.tlsSecret }}
      - name: tls
        mountPath: /etc/holdfast/tls
        readOnly: true
      {{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- if .root.Values.http.tlsSecret }}
  - name: tls
    secret:
      secretName: {{ .root.Values.http.tlsSecret }}
      items:
        - key: ca.crt
          path: ca.crt
  {{- end }}
{{- end -}}

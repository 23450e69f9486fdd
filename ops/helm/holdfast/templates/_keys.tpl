{{/* Keys: three containers that run one after the other before the daemon; of a pair they run beside it
     (_pair.tpl). */}}

{{- define "holdfast.daemonEnv" -}}
- name: HOLDFAST_STATE
  value: /var/lib/holdfast/state
- name: XDG_CACHE_HOME
  value: /tmp/cache
{{- end -}}

{{/* Variables of make-keys.sh. */}}
{{- define "holdfast.keyEnv" -}}
- name: BUSYBOX
  value: /tools/busybox
- name: NAMESPACE
  value: {{ .Release.Namespace }}
- name: RELEASE
  value: {{ include "holdfast.fullname" . }}
- name: NODES
  value: {{ include "holdfast.nodeNames" . | quote }}
- name: GATEWAY
  value: {{ if or .Values.ha.enabled (int .Values.gateways.replicas) }}"1"{{ else }}""{{ end }}
- name: NODE_SECRET
  value: {{ include "holdfast.nodeSecret" . }}
- name: API_SECRET
  value: {{ include "holdfast.apiSecret" . }}
- name: MANIFEST
  value: /run/manifest/secrets.yaml
{{- end -}}

{{- define "holdfast.toolsContainer" -}}
- name: tools
  image: {{ include "holdfast.imageName" .Values.keys.busybox }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/bin/busybox, cp, /bin/busybox, /tools/busybox]
  {{- include "holdfast.smallResources" . | nindent 2 }}
  {{- include "holdfast.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - name: tools
      mountPath: /tools
{{- end -}}

{{/* 1. tools: a static busybox, as the image of Holdfast has no shell. 2. keys: makes what is missing
     and writes both Secrets as a manifest into memory. 3. publish: the only container with a token,
     which may change these two Secrets and do nothing else. */}}
{{- define "holdfast.keyContainers" -}}
{{ include "holdfast.toolsContainer" . }}
- name: keys
  image: {{ include "holdfast.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/tools/busybox, sh, /scripts/make-keys.sh]
  args:
    {{- include "holdfast.knobs" . | nindent 4 }}
    {{- if not .Values.config }}
    []
    {{- end }}
  env:
    {{- include "holdfast.daemonEnv" . | nindent 4 }}
    {{- include "holdfast.keyEnv" . | nindent 4 }}
    - name: KEYS_DIR
      value: /var/lib/holdfast/keys/{{ int .Values.keys.generation }}
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
    - name: tmp
      mountPath: /tmp
- name: publish
  image: {{ include "holdfast.imageName" .Values.keys.kubectl }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  # Server-side: existing Secrets get these entries, and nothing is read back.
  command: [kubectl]
  args: [apply, --server-side, --force-conflicts, --field-manager=holdfast-keys, --cache-dir=/tmp/kubectl, -f, /run/manifest/secrets.yaml]
  env:
    - name: HOME
      value: /tmp
  {{- include "holdfast.smallResources" . | nindent 2 }}
  {{- include "holdfast.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - name: manifest
      mountPath: /run/manifest
      readOnly: true
    - name: token
      mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      readOnly: true
    - name: tmp
      mountPath: /tmp
{{- end -}}

{{- define "holdfast.keyVolumes" -}}
- name: tools
  emptyDir: {}
- name: scripts
  configMap:
    name: {{ include "holdfast.fullname" . }}-scripts
- name: manifest
  emptyDir: {medium: Memory, sizeLimit: 4Mi}
- name: token
  {{- include "holdfast.tokenSources" . | nindent 2 }}
{{- end -}}

{{/* A token of the pod's account, as the volume that Kubernetes would add by itself. */}}
{{- define "holdfast.tokenSources" -}}
projected:
  sources:
    - serviceAccountToken: {path: token, expirationSeconds: 3600}
    - configMap:
        name: kube-root-ca.crt
        items:
          - {key: ca.crt, path: ca.crt}
    - downwardAPI:
        items:
          - path: namespace
            fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}
{{- end -}}

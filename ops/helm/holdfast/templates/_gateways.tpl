{{/* HTTP in pods of its own: {root, name, labels, replicas}. They hold nothing: a client that loses one
     goes on at another, behind its last token. */}}
{{- define "holdfast.gateways" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "holdfast.labels" .labels | nindent 4 }}
spec:
  replicas: {{ int .replicas }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  selector:
    matchLabels:
      {{- include "holdfast.selector" .labels | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "holdfast.labels" .labels | nindent 8 }}
        {{- with .root.Values.gateways.labels }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with .root.Values.gateways.annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "holdfast.fullname" .root }}-gateway
      {{- include "holdfast.podCommon" .root | nindent 6 }}
      terminationGracePeriodSeconds: {{ int .root.Values.gateways.terminationGracePeriodSeconds }}
      {{- include "holdfast.placement" .root.Values.gateways | nindent 6 }}
      tolerations:
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 10}
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 10}
        {{- with .root.Values.gateways.tolerations }}{{ toYaml . | nindent 8 }}{{ end }}
      initContainers:
        # As for nodes: the key file has to belong to the gateway's user alone.
        - name: key
          image: {{ include "holdfast.imageName" .root.Values.keys.busybox }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command:
            - /bin/sh
            - -ec
            - until [ -s /keys/gateway.key ]; do sleep 1; done; umask 077; cat /keys/gateway.key >/run/holdfast/gateway.key
          resources:
            requests: {cpu: 10m, memory: 16Mi}
            limits: {memory: 32Mi}
          {{- include "holdfast.containerSecurity" .root | nindent 10 }}
          volumeMounts:
            - name: keys
              mountPath: /keys
              readOnly: true
            - name: key
              mountPath: /run/holdfast
      containers:
        - name: gateway
          image: {{ include "holdfast.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [/usr/bin/holdfast]
          args:
            - gateway
            - --verbose
            - --join
            - {{ include "holdfast.listeners" .root }}
            - --key
            - /run/holdfast/gateway.key
            - --state
            - /var/lib/holdfast/gateway
            - --http
            - "*:{{ int .root.Values.http.port }}"
            {{- if .root.Values.http.tlsSecret }}
            - --tls-cert
            - /etc/holdfast/tls/tls.crt
            - --tls-key
            - /etc/holdfast/tls/tls.key
            {{- end }}
            {{- range .root.Values.http.corsOrigins }}
            - --cors-origin
            - {{ . | quote }}
            {{- end }}
            {{- with .root.Values.gateways.args }}{{ toYaml . | nindent 12 }}{{ end }}
          ports:
            - name: http
              containerPort: {{ int .root.Values.http.port }}
              protocol: TCP
          # Whether clients may be sent here. The supervisor watches the gateway's process itself, and
          # a daemon that is down is no reason to restart one: its clients are waiting in it.
          readinessProbe:
            httpGet: {path: /health/ready, port: http, scheme: {{ include "holdfast.scheme" .root | upper }}}
            periodSeconds: 2
            timeoutSeconds: 3
          resources:
            {{- toYaml .root.Values.gateways.resources | nindent 12 }}
          {{- include "holdfast.containerSecurity" .root | nindent 10 }}
          volumeMounts:
            - name: state
              mountPath: /var/lib/holdfast
            - name: key
              mountPath: /run/holdfast
              readOnly: true
            - name: tmp
              mountPath: /tmp
            {{- if .root.Values.http.tlsSecret }}
            - name: tls
              mountPath: /etc/holdfast/tls
              readOnly: true
            {{- end }}
      volumes:
        - name: keys
          secret:
            secretName: {{ include "holdfast.apiSecret" .root }}
            defaultMode: 0440
            items:
              - {key: gateway.key, path: gateway.key}
        - name: key
          emptyDir: {medium: Memory, sizeLimit: 1Mi}
        - name: state
          emptyDir: {}
        - name: tmp
          emptyDir: {}
        {{- if .root.Values.http.tlsSecret }}
        - name: tls
          secret:
            secretName: {{ .root.Values.http.tlsSecret }}
        {{- end }}
{{- end -}}

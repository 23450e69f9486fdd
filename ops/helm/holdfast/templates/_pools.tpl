{{/* Pools of nodes: a pool with its tier's values where it has none of its own, as YAML:
     {root, name, pool}. */}}
{{- define "holdfast.pool" -}}
{{- $tier := .pool.tier | default .root.Values.tier -}}
{{- $merged := merge (dict "tier" $tier) (deepCopy .pool) (deepCopy (index .root.Values.tiers $tier)) -}}
{{- /* merge takes 0 and "" for missing; what a pool says explicitly holds. */ -}}
{{- range $name, $value := .pool -}}{{- $_ := set $merged $name $value -}}{{- end -}}
{{- $_ := set $merged "statefulSet" (printf "%s-%s" (include "holdfast.fullname" .root) .name) -}}
{{- $replicas := 1 -}}
{{- if hasKey .pool "replicas" -}}{{- $replicas = int .pool.replicas -}}{{- end -}}
{{- $_ := set $merged "replicas" $replicas -}}
{{- $keys := $replicas -}}
{{- with .pool.autoscaling -}}{{- $keys = max $replicas (int .max) -}}{{- end -}}
{{- if hasKey .pool "keys" -}}
{{- if lt (int .pool.keys) (int $keys) -}}
{{- fail (printf "nodes.%s.keys: %d, but it may have %d nodes; expected at least as many" .name (int .pool.keys) (int $keys)) -}}
{{- end -}}
{{- $keys = int .pool.keys -}}
{{- end -}}
{{- $_ := set $merged "keys" $keys -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* All names of nodes that have a key, separated by blanks. */}}
{{- define "holdfast.nodeNames" -}}
{{- $names := list -}}
{{- range $name, $pool := .Values.nodes -}}
{{- $merged := include "holdfast.pool" (dict "root" $ "name" $name "pool" $pool) | fromYaml -}}
{{- range $i := until (int $merged.keys) -}}
{{- $names = append $names (printf "%s-%d" $merged.statefulSet $i) -}}
{{- end -}}
{{- end -}}
{{- join " " $names -}}
{{- end -}}

{{/* Requests and limits of a node's container, of a merged pool. */}}
{{- define "holdfast.nodeResources" -}}
requests:
  cpu: {{ .cpu | quote }}
  memory: {{ .memory }}
  {{- with .hugepages }}
  hugepages-2Mi: {{ . }}
  {{- end }}
  {{- with .gpu }}
  {{ .resource }}: {{ int .count }}
  {{- end }}
limits:
  {{- with .cpuLimit }}
  cpu: {{ . | quote }}
  {{- end }}
  memory: {{ .memory }}
  {{- with .hugepages }}
  hugepages-2Mi: {{ . }}
  {{- end }}
  {{- with .gpu }}
  {{ .resource }}: {{ int .count }}
  {{- end }}
{{- end -}}

{{/* What API servers have since when. */}}

{{- define "holdfast.apiVersion.pdb" -}}
{{- if semverCompare ">=1.21-0" .Capabilities.KubeVersion.Version -}}policy/v1{{- else -}}policy/v1beta1{{- end -}}
{{- end -}}

{{- define "holdfast.apiVersion.hpa" -}}
{{- if semverCompare ">=1.23-0" .Capabilities.KubeVersion.Version -}}autoscaling/v2{{- else -}}autoscaling/v2beta2{{- end -}}
{{- end -}}

{{/* minReadySeconds of a StatefulSet. */}}
{{- define "holdfast.hasMinReady" -}}
{{- if semverCompare ">=1.25-0" .Capabilities.KubeVersion.Version -}}yes{{- end -}}
{{- end -}}

"""Writes the models in `corral.kube.models`. A tool of development: nothing of Corral imports it at run time.

    python -m corral.kube.generate            from the API server of the current kubeconfig
    python -m corral.kube.generate --check    write nothing; fail if a file would change
    python -m corral.kube.generate --kinds corral.kinds --into FOLDER    the definitions of our own kinds, as YAML

Documents (OpenAPI v3 of a server, CRD files of third parties) become schemas by name (`documents`), the kinds listed
in `kinds.toml` and what they reach become classes (`classes`), and classes become text (`writing`). All three are pure;
`files` compares with what is there, and `__main__` speaks to the server.

What the schema does not say, and `go_fields.json` does: whether an absent number, string or flag means zero (a plain Go
field) or "not set" (a pointer), and which lists a server may send as null. `gofields` extracts it from the Go sources.
"""

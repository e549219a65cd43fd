"""`corral up --context` and `corral down --context`: Corral in a cluster that the person has."""

import click

from corral.cli.hints import echo_commands


def up(context: str, bare: bool, image_prefix: str) -> None:
    from corral.install import up
    from corral.kube import load_credentials
    from corral.local import existing
    from corral.local.progress import Progress

    credentials = load_credentials(context=context)
    version = existing.checked_version(context, credentials)
    if bare:
        click.echo(f"Context {context} answers: Kubernetes {version}. Nothing was started; add `--context {context}`.")
        return
    example = up.look(credentials)
    images = ", ".join(up.image_references(image_prefix))
    click.echo(f"Images, which the nodes must be able to pull: {images}", err=True)
    if example.left_out:
        click.echo(example.left_out, err=True)
    with Progress(up.STEPS) as progress:
        job = up.bring_up_elsewhere(credentials, progress, example, image_prefix=image_prefix)
    where = f"namespace {credentials.namespace} of context {context} (Kubernetes {version})"
    click.echo(f"\nCorral runs, and a Slurm cluster in {where}.\n\n{job.text}\n\nTry next:\n")
    echo_commands(
        (f"corral status --context {context}", "what there is, and whether it is as it should be"),
        (f"kubectl --context {context} exec -it {job.login}", "a user's shell: sbatch, squeue, sacct"),
        (f"corral test --context {context} {job.cluster}", "real jobs, and what of Slurm works"),
        (f"corral explain --context {context} nodeset worker", "what it does, and why"),
        (f"corral down --context {context}", "take the Slurm cluster and Corral away; volumes stay"),
    )


def down(context: str) -> None:
    from corral.install import up
    from corral.kube import load_credentials
    from corral.local.progress import Progress

    credentials = load_credentials(context=context)
    with Progress(up.DOWN_STEPS) as progress:
        kept = up.bring_down(credentials, progress)
    click.echo(f"Corral and its example are gone from context {context}.", err=True)
    if kept:
        click.echo("What people wrote stays until you delete it:\n", err=True)
        delete = f"kubectl --context {context} -n {credentials.namespace} delete pvc {' '.join(kept)}"
        echo_commands((delete, "job records, slurmctld's state, /home"))

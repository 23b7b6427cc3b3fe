"""The cluster file, found and read; its ssh configuration as a path that holds from anywhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from console.base.errors import FileError
from console.base.toml_check import FileErrors
from console.cluster.model import Cluster
from console.cluster.parse import parse_cluster
from console.files.places import Places
from console.files.read import read_text


def load_cluster(path: Path) -> Cluster:
    """Read a cluster file. Raises FileErrors (ClusterErrors for what stands in it).

    A relative `ssh_config` is taken from the cluster file's folder, `~` is the home of who runs the console.
    """
    try:
        text = read_text(path)
    except FileError as error:
        raise FileErrors([error]) from error
    cluster = parse_cluster(text, str(path))
    if cluster.ssh_config is None:
        return cluster
    config = path.parent / Path(cluster.ssh_config).expanduser()
    return dataclasses.replace(cluster, ssh_config=str(config))


def find_cluster(places: Places) -> Cluster | None:
    """The configuration's cluster file, or None where there is none. Raises as `load_cluster`."""
    path = places.cluster_file
    return load_cluster(path) if path.exists() or path.is_symlink() else None

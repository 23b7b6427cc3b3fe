"""The shape of a cluster file: keys, types and ranges, as pydantic checks them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
ContainerCli = Literal["docker", "podman", "nerdctl"]


class NodeTable(BaseModel):
    """One of `[[nodes]]`; what it leaves out comes from the top of the file."""

    model_config = ConfigDict(strict=True, extra="allow")

    host: Text
    name: Text | None = None
    user: Text | None = None
    port: Port | None = None
    fabric_address: Text | None = None
    fabric_interface: Text | None = None
    hcas: list[Text] | None = None
    container_cli: ContainerCli | None = None
    hf_cache: Text | None = None


class ClusterTable(BaseModel):
    """The file itself. `env` is checked by hand: its errors need better words than a type's."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: Text = "cluster"
    user: Text | None = None
    port: Port | None = None
    container_cli: ContainerCli = "docker"
    fabric_interface: Text | None = None
    hf_cache: Text | None = None
    api_host: Text = "0.0.0.0"
    ssh_config: Text | None = None
    env: Any = None
    nodes: Annotated[list[NodeTable], Field(min_length=1)]


NODE_KEYS = tuple(NodeTable.model_fields)
CLUSTER_KEYS = tuple(ClusterTable.model_fields)

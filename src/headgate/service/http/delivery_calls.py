"""The client's calls for deliveries and published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class DeliveryCalls:
    """A part of the client."""

    def _request(self, method: str, path: str, **options: Any) -> Any:
        raise NotImplementedError  # the client has it

    def publish(
        self, number: int, name: str, *, delay_s: float | None = None, rate: float = 1.0
    ) -> dict[str, Any]:
        """Make the results of a query a source of yours, which queries can read from now on."""
        body = {"name": name, "delay_s": delay_s, "rate": rate}
        answer: dict[str, Any] = self._request("POST", f"/queries/{number}/publish", json=body)
        return answer

    def targets(self) -> list[dict[str, str]]:
        """List the targets to which you may have results delivered."""
        listed: list[dict[str, str]] = self._request("GET", "/targets")["targets"]
        return listed

    def deliver(
        self,
        queries: int | Sequence[int],
        target: str,
        options: Mapping[str, str] | None = None,
        *,
        start: str = "kept",
    ) -> dict[str, Any]:
        """Have the results of queries delivered to a target. The answer has the deliveries, and for a webhook the secret
        that signs it, which is shown only once.
        """
        body = {
            "queries": [queries] if isinstance(queries, int) else list(queries),
            "target": target,
            "options": dict(options or {}),
            "start": start,
        }
        answer: dict[str, Any] = self._request("POST", "/deliveries", json=body)
        return answer

    def deliveries(self, query: int | None = None) -> list[dict[str, Any]]:
        """List your deliveries, of one query or of all."""
        params = {} if query is None else {"query": query}
        listed: list[dict[str, Any]] = self._request("GET", "/deliveries", params=params)["deliveries"]
        return listed

    def delivery(self, number: int) -> dict[str, Any]:
        """Show how far a delivery has come, and why it is stopped if it is."""
        answer: dict[str, Any] = self._request("GET", f"/deliveries/{number}")
        return answer

    def pause_delivery(self, number: int) -> None:
        """Send nothing more until the delivery is resumed."""
        self._request("POST", f"/deliveries/{number}/pause")

    def resume_delivery(self, number: int, *, skip: bool = False) -> None:
        """Go on from where the delivery stood. With `skip`, results that can no longer be read are not sent."""
        self._request("POST", f"/deliveries/{number}/resume", params={"skip": skip})

    def rotate_secret(self, number: int, *, grace_s: float = 0.0) -> dict[str, Any]:
        """Sign a webhook with a new secret, which the answer has; for the grace period the old one signs it, too."""
        path = f"/deliveries/{number}/rotate"
        answer: dict[str, Any] = self._request("POST", path, json={"grace_s": grace_s})
        return answer

    def remove_delivery(self, number: int) -> None:
        """Remove a delivery. What was sent stays where it is."""
        self._request("DELETE", f"/deliveries/{number}")

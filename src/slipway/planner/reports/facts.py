"""The facts policies read for an environment that can be planned but not built yet."""

from __future__ import annotations

from slipway.plan.facts import Facts, model_facts, platform_facts, pool_facts
from slipway.plan.platform import PlatformPlan


def fleet_facts(plan: PlatformPlan) -> list[Facts]:
    """The components of a fleet environment as resources: {type, name, parent, inputs}.

    Facts that only a component has (whether it is protected) are missing.
    """
    pools = {pool.name: pool for pool in plan.pools}
    return [
        _resource("Platform", "platform", platform_facts(plan)),
        *(_resource("NodePool", f"pool-{pool.name}", pool_facts(pool)) for pool in plan.pools),
        *(
            _resource(
                "ModelService",
                f"model-{model.name}",
                model_facts(model, pools[model.pool]),
            )
            for model in plan.models
        ),
    ]


def _resource(kind: str, name: str, facts: Facts) -> Facts:
    return {
        "type": f"slipway:index:{kind}",
        "name": name,
        "parent": "" if kind == "Platform" else "platform",
        "inputs": {"facts": facts},
    }

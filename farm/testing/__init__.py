"""The test kit: a Messages API that answers as a scenario says, for tests without a model and without costs.

::

    with ScriptedApi(load_scenarios(Path("scenarios/greets.yaml"))) as api:
        ...  # point an agent's base_url at api.base_url("greets")
    assert api.received("greets")[0].body["model"] == "some-model"

`python -m farm.testing SCENARIO.yaml…` serves scenarios from a terminal.
"""

from farm.testing.messages_api import ReceivedRequest as ReceivedRequest
from farm.testing.messages_api import ScriptedApi as ScriptedApi
from farm.testing.scenario import Fault as Fault
from farm.testing.scenario import Scenario as Scenario
from farm.testing.scenario import ToolUse as ToolUse
from farm.testing.scenario import Turn as Turn
from farm.testing.scenario import load_scenarios as load_scenarios

__all__ = ["Fault", "ReceivedRequest", "Scenario", "ScriptedApi", "ToolUse", "Turn", "load_scenarios"]

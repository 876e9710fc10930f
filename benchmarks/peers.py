"""Running chats of other libraries that keep a history, each with a window of 20 messages; those that are installed."""

from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from typing import Any

Ask = Callable[[str], Awaitable[object]]

WINDOW = 20


def installed_peers(client: Any, home: str) -> Iterator[tuple[str, Ask]]:
    """The name of each peer, and how to ask it; `client` is an `AsyncOpenAI`."""
    peers = {
        "openai-agents, SQLite session": ("agents", openai_agents),
        "pydantic-ai, history in memory": ("pydantic_ai", pydantic_ai),
        "LangGraph, SQLite checkpoints": ("langgraph.checkpoint.sqlite", langgraph),
    }
    for name, (module, ask_of) in peers.items():
        if is_installed(module):
            yield name, ask_of(client, home)


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def openai_agents(client: Any, home: str) -> Ask:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        RunConfig,
        Runner,
        SessionSettings,
        SQLiteSession,
        set_tracing_disabled,
    )

    set_tracing_disabled(True)
    agent = Agent(name="a", model=OpenAIChatCompletionsModel(model="m", openai_client=client))
    session, config = SQLiteSession("s", f"{home}/agents.db"), RunConfig(session_settings=SessionSettings(limit=WINDOW))
    return lambda text: Runner.run(agent, text, session=session, run_config=config)


def pydantic_ai(client: Any, home: str) -> Ask:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))
    history: list[Any] = []

    async def ask(text: str) -> None:
        result = await agent.run(text, message_history=history[-WINDOW:])
        history.extend(result.new_messages())

    return ask


def langgraph(client: Any, home: str) -> Ask:
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import START, MessagesState, StateGraph

    model = ChatOpenAI(model="m", api_key="x", base_url=str(client.base_url))
    graphs: list[Any] = []

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"][-WINDOW:])]}

    async def ask(text: str) -> None:
        if not graphs:  # the saver needs a running loop
            import aiosqlite

            saver = AsyncSqliteSaver(await aiosqlite.connect(f"{home}/langgraph.db"))
            graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
            graphs.append(graph.compile(checkpointer=saver))
        await graphs[0].ainvoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "s"}})

    return ask

"""Make the Celery application. Celery delivers; whether what it delivers is done, the ledger knows."""

from __future__ import annotations

from celery import Celery

from farm.queue.names import CONTROL_QUEUE

# Longer than any session: what is lost on the way is found by the janitor, not by a time-out.
_VISIBILITY_TIMEOUT_SECONDS = 7 * 24 * 3600


def make_celery(broker_url: str) -> Celery:
    """Make the application that sends to, and works on, one broker."""
    app = Celery("farm", broker=broker_url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_backend=None,
        task_ignore_result=True,  # the ledger has it
        task_acks_late=False,  # a message is a hint: it need not come again
        worker_disable_prefetch=True,  # a worker takes no case that another could begin at once
        worker_prefetch_multiplier=1,
        worker_send_task_events=True,
        task_default_queue=CONTROL_QUEUE,
        task_create_missing_queues=True,
        broker_transport_options={"visibility_timeout": _VISIBILITY_TIMEOUT_SECONDS},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,  # a server that refuses to write may have room again later
        worker_cancel_long_running_tasks_on_connection_loss=False,  # the ledger decides who may go on
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    return app
